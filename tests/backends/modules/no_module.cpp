// A shared object that has nothing to do with acan.
extern "C" int something_else() {
  return 1;
}
