// The weights that the jobs of golden_jobs.cpp train on every device, in every cluster. They never
// change within a revision of the numerics (golden_test.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace acan::testing {

inline constexpr std::uint32_t kRevisionOfTheHashes = 1;

// SHA-256 of the weights, by the job's name.
inline const std::map<std::string, std::string> kGoldenHashes = {
    {"sgd", "541656e4731b2a4234feb9947e3c6a151ad8f42649199e83948be20012af48b9"},
    {"momentum", "79d9d1b29f9abc44f9c9c31be62bf5c1b43018b43232a7c785fa0a8b20c5fee5"},
    {"adamw", "2b1c8dec715692fa3c19e34e7f54a01287c403777622dea63e9381b9558b3b6b"},
    {"gpt", "a2b601b4cc76da781bd86a1da2bd94af97bc6b6424e1cb695dc39289d90f5f02"},
    {"llama", "daf006a04baaac10276e7426057bc557666108a4e1f74ab43214f460cd22f6a3"},
    {"bert", "79f403c69921af94540a0ebd633e80b0e730caf43f5c563b1cf8f3864aac795b"},
    {"vit", "eb85efae264fef57c7da88e652a31757d292e1b226e4c71b68052375cc484dea"},
    {"resnet", "7ae89b113bc404415a93373a2cc46f8d55576be6103d2432a342fc09837c59cf"},
    {"convnext", "6af50cdb6984488245e2baee838a2b61879f2f861eecf1b415e75945ce796076"},
    {"graph", "cfb7ac5e2a5a541553f0b686d3dc444131b750877bca170aa5742b87c2fb827b"},
};

}  // namespace acan::testing
