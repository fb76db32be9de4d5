// Text for a language model: UTF-8 text can be restored from its tokens, and nothing else is
// accepted.
//
// Input: the text
#include <string>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/load_data.h"
#include "memory_file.h"
#include "nlohmann/json.hpp"
#include "target.h"

namespace acan::fuzz::text_target {
namespace {

// Text is read in chunks of 1 MiB; each character may be a different token.
constexpr std::uint64_t kHeapBytes = 8 << 20;
constexpr std::uint64_t kHeapFactor = 256;

// Restores the text from all tokens: those of windows of one token, and the label of the last.
std::string Decoded(const Data& data) {
  const auto json = ParseJson(data.vocabulary)["tokens"];
  std::string text;
  std::uint32_t word = 0;
  const auto add = [&](const char* input, std::int64_t sample) {
    data.train->Copy({input, sample, 0, {0, 1}, {0, 1}}, {&word, 1});
    Require(word < json.size(), "the token {} of {}", word, json.size());
    text += json[word].get<std::string>();
  };
  for (std::int64_t sample = 0; sample < data.train->samples(); ++sample) add("tokens", sample);
  add("labels", data.train->samples() - 1);
  return text;
}

bool Run(std::string_view input) {
  // Compressed text is also accepted; array_target covers such files.
  if (input.starts_with("\x1f\x8b")) return false;
  const MemoryFile file(input);
  Job job;
  job.data.text.train_text = file.path();
  constexpr std::int64_t kMaxTokens = 1 << 21;
  const std::vector<WantedInput> wanted = {{"tokens", model::InputRole::kTokens, 1, 1, kMaxTokens},
                                           {"labels", model::InputRole::kLabels, 1, 1, kMaxTokens}};
  const HeapWatch heap;
  try {
    const Data data = LoadData(job, wanted);
    heap.RequireAtMost(kHeapBytes + kHeapFactor * input.size());
    Require(Decoded(data) == input, "the tokens are another text");
    return true;
  } catch (const Error& refused) {
    heap.RequireAtMost(kHeapBytes + kHeapFactor * input.size());
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
    return false;
  }
}

std::vector<Seed> Seeds() {
  return {
      {"ascii", "First Citizen:\nBefore we proceed any further, hear me speak.\n"},
      {"lengths", "a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xf0\x9d\x84\x9e\xe2\x82\xac"},
      {"ends", std::string("\0\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf", 16)}};
}

const Registration registration({"text", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::text_target
