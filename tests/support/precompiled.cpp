// Nothing: the target of the headers that test programs share has to have a source.
