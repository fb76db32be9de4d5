// The registered kernels. CUDA's compiler registers each __global__ function; here, the file that
// includes a .cu file registers its kernels.
#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "blocks.h"

namespace cuda_on_cpu {

void AddKernel(const void* function, KernelInfo info);
const KernelInfo* FindKernel(const void* function);  // null if there is none

// Copies the parameters of a kernel of this type, and calls it with them. This code is compiled
// with the kernels, but its reads of the copies are not accesses of the kernel.
template <typename... Types>
struct KernelOf {
  using Copies = std::tuple<std::remove_cv_t<Types>...>;
  static_assert(std::is_trivially_destructible_v<Copies>);

  static Parameters Copy(void** parameters) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      void* const copies = ::new (NewCopies(sizeof(Copies)))
          Copies(*static_cast<const std::remove_cv_t<Types>*>(parameters[I])...);
      return Parameters{copies, sizeof(Copies), &Call};
    }
    (std::index_sequence_for<Types...>());
  }
  static void Call(const void* function, const void* copies) {
    std::apply(reinterpret_cast<void (*)(Types...)>(const_cast<void*>(function)),
               *static_cast<const Copies*>(copies));
  }
};

template <typename... Types>
bool RegisterKernel(void (*function)(Types...), std::string name, unsigned most_threads,
                    std::size_t local_bytes) {
  const auto* const address = reinterpret_cast<const void*>(function);
  AddKernel(address,
            {address, std::move(name), most_threads, local_bytes, &KernelOf<Types...>::Copy});
  return true;
}

}  // namespace cuda_on_cpu
