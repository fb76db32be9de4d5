// The roles of inputs as graph files and messages name them.
#pragma once

#include <string_view>

#include "acan/model/graph.h"

namespace acan::model {

std::string_view Word(InputRole role);

}  // namespace acan::model
