// A shared object that is not an acan module at all.
extern "C" int something_else() {
  return 1;
}
