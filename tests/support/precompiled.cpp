// Empty: the target that precompiles the test programs' shared headers needs a source.
