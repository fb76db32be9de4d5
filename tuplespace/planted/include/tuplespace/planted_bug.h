// How to plant a bug that the simulation's own build of a source can switch on, to show that the
// simulation finds it. In the product, bugs cannot be switched on, and the compiler removes their
// code. Not for users: this header is not installed.
#pragma once

namespace tuplespace {

// `Bug` is an enumeration of bugs whose first value, kNone, means no bug.
#ifdef ACAN_PLANTED_BUGS
template <class Bug>
inline Bug planted_bug = Bug::kNone;
template <class Bug>
bool IsPlanted(Bug bug) {
  return planted_bug<Bug> == bug;
}
#else
// consteval, so that no object of the product has a function of this name: the simulation links
// such objects together with its own, which have the function above.
template <class Bug>
consteval bool IsPlanted(Bug) {
  return false;
}
#endif

}  // namespace tuplespace
