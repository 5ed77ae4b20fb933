// nanobind's own code, which comes as sources.
#include <nb_combined.cpp>
