// Initial weights are refused if the files beside them say that they are those of another model.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "acan/manager/initial_weights.h"
#include "acan/manager/model_config.h"
#include "graph_files.h"
#include "initial_weights_job.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

// The shapes of tensors do not show what these files say. The file of weights itself, which does
// not exist, is looked at after them.
class WeightsOfAnotherModel : public ::testing::Test {
 protected:
  void Accepted(const nlohmann::json& file) { Refused(file, {"model.safetensors: cannot open"}); }
  void Refused(const nlohmann::json& file, const std::vector<std::string>& parts) {
    RefusedText(file.dump(), parts);
  }
  void RefusedText(const std::string& file, const std::vector<std::string>& parts) {
    folder_.Write(name_, file);
    SCOPED_TRACE(file.substr(0, 100));
    ExpectError([&] { HoldToInitialWeights(&job_, JobOrigin::kUser); }, parts);
  }

  const TestFolder folder_;
  Job job_ = JobFrom(folder_.Path("model.safetensors"));
  std::string name_ = "config.json";
};

TEST_F(WeightsOfAnotherModel, AreRefusedIfAConfigSaysSo) {
  job_.model = SmallLlama();
  const nlohmann::json own = TransformersConfig(job_.model);
  Accepted(own);
  Accepted({{"other", 1}});
  Accepted({{"rope_scaling", nullptr}});
  const auto with = [&own](const char* field, const nlohmann::json& value) {
    nlohmann::json config = own;
    config[field] = value;
    return config;
  };
  Refused(with("rope_theta", 500000), {"model.initial_weights: " + folder_.Path("config.json"),
                                       "rope_theta = 500000", "the job's model has 10000"});
  Refused(with("num_attention_heads", 4), {"num_attention_heads = 4"});
  Refused(with("rms_norm_eps", 1e-5), {"rms_norm_eps = 1e-05"});
  Refused(with("hidden_act", "gelu"), {"hidden_act = \"gelu\""});
  // A file of a tied model may have the head as well, so its tensors would fit.
  Refused(with("tie_word_embeddings", true),
          {"tie_word_embeddings = true", "the job's model has false"});
  Refused(with("rope_scaling", {{"rope_type", "llama3"}}),
          {"rope_scaling", "acan does not scale rotary positions (only null)"});
  Refused(with("rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}),
          {"rope_theta = 5"});
  Refused(with("rope_parameters", {{"type", "linear"}, {"factor", 2}, {"rope_theta", 10000}}),
          {"rope_scaling", "acan does not scale rotary positions"});
  Refused(with("rope_scaling", {{"type", "default"}, {"rope_theta", 5e5}}), {"rope_theta = 5"});
  Refused(with("rope_scaling", "linear"), {"rope_scaling = \"linear\""});
  // These scale nothing.
  Accepted(with("rope_scaling", nlohmann::json::object()));
  Accepted(with("rope_scaling", {{"type", "default"}}));
  Accepted(with("rope_scaling", {{"rope_type", "default"}}));
  // What people change for a fine-tuning, and another name of the same function.
  Accepted(with("attention_dropout", 0.5));
  Accepted(with("hidden_act", "swish"));
}

// transformers' class has a value for each field that the file leaves out.
TEST_F(WeightsOfAnotherModel, AreRefusedIfAConfigLeavesOutAnotherDefault) {
  model::LlamaOptions llama = SmallLlama();
  llama.rope_theta = 3;
  job_.model = llama;
  Refused({{"model_type", "llama"}, {"num_attention_heads", 2}},
          {"no rope_theta, which means 10000", "the job's model has 3"});
  Refused({{"model_type", "llama"}, {"rope_theta", 3}}, {"no num_attention_heads", "32"});
  Accepted({{"model_type", "llama"}, {"num_attention_heads", 2}, {"rope_theta", 3}});
  llama.tie_word_embeddings = true;
  job_.model = llama;
  Refused({{"model_type", "llama"}, {"num_attention_heads", 2}, {"rope_theta", 3}},
          {"no tie_word_embeddings, which means false", "the job's model has true"});
}

// As after an interrupted download. Nobody knows what the rest of the file said.
TEST_F(WeightsOfAnotherModel, AreRefusedIfAFileIsDamaged) {
  job_.model = SmallLlama();
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  for (const char* name : {"config.json", "job.json"}) {
    name_ = name;
    const std::string about =
        "model.initial_weights: " + folder_.Path(name) + ": describes the weights, but ";
    const std::string advice = "restore the file, or keep the weights in a folder without it";
    RefusedText(R"({"model_type": "llama", "num_att)", {about + "is not JSON", advice});
    RefusedText("", {about + "is not JSON"});
    RefusedText("[3]", {about + "is a JSON array, not an object", advice});
    RefusedText("{\"x\": " + deep + "}", {about + "nests arrays and objects more than 16 deep"});
    Accepted(nlohmann::json::object());
  }
}

// GPT2Config takes the heads under both names, and prefers the second.
TEST_F(WeightsOfAnotherModel, AreComparedByTheSecondNameOfTheHeads) {
  job_.model = SmallGpt();
  const std::int64_t heads = SmallGpt().n_head;
  const auto with = [&](std::int64_t value) {
    nlohmann::json config = TransformersConfig(job_.model);
    config["num_attention_heads"] = value;
    return config;
  };
  Accepted(with(heads));
  Refused(with(heads + 1), {"n_head = " + std::to_string(heads + 1)});
  nlohmann::json only_second = with(heads);
  only_second.erase("n_head");
  Accepted(only_second);
}

// The embedding of this token is not trained.
TEST_F(WeightsOfAnotherModel, AreRefusedForAnotherPaddingToken) {
  model::BertOptions bert;
  bert.task = model::BertTask::kMaskedLanguage;
  job_.model = bert;
  Accepted({{"pad_token_id", 0}});
  Accepted({{"model_type", "bert"}});
  Refused({{"pad_token_id", 5}}, {"pad_token_id = 5, but the job's model has 0"});
  // null means none, and -1 the last token; in a job, -1 means none.
  Refused({{"pad_token_id", nullptr}},
          {"pad_token_id = null, which is -1 in a job", "the job's model has 0"});
  Refused({{"pad_token_id", -1}}, {"pad_token_id = -1, which is 30521 in a job"});
  const auto set = [&](std::int64_t token) {
    bert.pad_token_id = token;
    job_.model = bert;
  };
  set(5);
  Accepted({{"pad_token_id", 5}});
  Refused({{"model_type", "bert"}}, {"no pad_token_id, which means 0"});
  set(-1);
  Accepted({{"pad_token_id", nullptr}});
  Accepted(TransformersConfig(job_.model));
  Refused({{"pad_token_id", -1}}, {"the job's model has -1"});
  Refused({{"pad_token_id", -30523}}, {"pad_token_id = -30523, but the job's model has -1"});
  set(bert.vocab_size - 1);
  Accepted({{"pad_token_id", -1}});
  Refused({{"pad_token_id", nullptr}}, {"the job's model has 30521"});
}

TEST_F(WeightsOfAnotherModel, AreRefusedIfTheJobOfTheirRunSaysSo) {
  job_.model = SmallLlama();
  name_ = "job.json";
  nlohmann::json kept = JobToJson(job_);
  kept["model"]["attention_dropout"] = 0.5;
  Accepted(kept);
  nlohmann::json other = kept;
  other["model"]["kind"] = "bert";
  other["model"]["num_attention_heads"] = 4;
  Accepted(other);
  Accepted({{"model", 3}});
  kept["model"]["num_attention_heads"] = 4;
  Refused(kept, {"model.initial_weights: " + folder_.Path("job.json"),
                 "model.num_attention_heads = 4", "the job's model has 2"});
  kept["model"]["num_attention_heads"] = 2;
  kept["model"]["rope_theta"] = 5e5;
  Refused(kept, {"model.rope_theta = 5"});
  // The snapshots of this run, too.
  job_.initial_weights = folder_.Path("snapshots/step-000000000012.safetensors");
  Refused(kept, {folder_.Path("job.json"), "model.rope_theta = 5"});
}

// Both have six patches, but at other places. Images of other kinds may have other sides.
TEST_F(WeightsOfAnotherModel, AreRefusedForImagesOfOtherSides) {
  name_ = "job.json";
  model::VitOptions vit;
  vit.image_size = {8, 12};
  vit.patch_size = 4;
  job_.model = vit;
  nlohmann::json kept = JobToJson(job_);
  Accepted(kept);
  kept["model"]["image_size"] = {12, 8};
  Refused(kept, {"model.image_size = [12,8]", "the job's model has [8,12]"});
  job_.model = model::ResnetOptions();
  kept = JobToJson(job_);
  kept["model"]["image_size"] = {12, 8};
  Accepted(kept);
}

}  // namespace
}  // namespace acan
