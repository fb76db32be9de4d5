// How a bug is planted that a simulation's own build of a source can switch on, to show that the
// simulation finds it. In the product there is nothing to switch on, and the compiler removes the
// code behind it. Not for users: this header is not installed.
#pragma once

namespace tuplespace {

// `Bug` is an enumeration of bugs whose first, kNone, is none.
#ifdef ACAN_PLANTED_BUGS
template <class Bug>
inline Bug planted_bug = Bug::kNone;
template <class Bug>
bool IsPlanted(Bug bug) {
  return planted_bug<Bug> == bug;
}
#else
// consteval, so that no object of the product has a function of this name: the simulation links
// such objects beside its own, which have the one above.
template <class Bug>
consteval bool IsPlanted(Bug) {
  return false;
}
#endif

}  // namespace tuplespace
