#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/model/graph_text.h"
#include "attribute_text.h"
#include "json_fields.h"

namespace acan::model {
namespace {

// The operators that a file may use: all forward operators except RunningAverage, which the reader
// adds for batch norms in training.
template <class Op>
constexpr bool kIsInFiles = !std::is_same_v<Op, RunningAverage>;

template <std::size_t kIndex = 0>
std::optional<Operator> OperatorNamed(std::string_view name) {
  using Op = std::variant_alternative_t<kIndex, Operator>;
  if constexpr (std::is_same_v<Op, LinearInputGradient>) {
    return std::nullopt;  // the first backward operator
  } else {
    if (kIsInFiles<Op> && name == Op::kName) return Op();
    return OperatorNamed<kIndex + 1>(name);
  }
}

template <std::size_t kIndex = 0>
void AppendNames(std::string* names) {
  using Op = std::variant_alternative_t<kIndex, Operator>;
  if constexpr (!std::is_same_v<Op, LinearInputGradient>) {
    if (kIsInFiles<Op>) *names += fmt::format("{}{}", names->empty() ? "" : ", ", Op::kName);
    AppendNames<kIndex + 1>(names);
  }
}

struct RequiredAttributes {
  std::string_view operator_name;
  std::vector<const char*> names;
};

// The attributes without a default. PyTorch requires most of them, too. Its poolings step by their
// kernel, so a stride that is left out must not mean 1 here.
const std::vector<RequiredAttributes>& AllRequired() {
  static const std::vector<RequiredAttributes> kAll = {
      {Rotary::kName, {"head_size"}},
      {Attention::kName, {"heads", "key_value_heads"}},
      {Convolution::kName, {"input", "kernel"}},
      {Pooling::kName, {"input", "kernel", "stride"}},
      {Patches::kName, {"input", "patch"}},
      {Slice::kName, {"end"}},
      {Dropout::kName, {"rate"}},
  };
  return kAll;
}

void Require(const Fields& attributes, std::string_view operator_name) {
  for (const RequiredAttributes& required : AllRequired()) {
    if (required.operator_name != operator_name) continue;
    for (const char* name : required.names) attributes.Get(name);  // throws if it is missing
  }
}

// The share of the normal distribution that is in [low, high].
double ShareInRange(const TruncatedNormal& n) {
  const auto below = [&n](float end) {
    const double deviations = (static_cast<double>(end) - n.mean) / n.deviation;
    return std::erfc(-deviations / std::sqrt(2.0)) / 2;
  };
  return below(n.high) - below(n.low);
}

class Reader {
 public:
  Reader(const json& file, std::string name, Mode mode)
      : name_(std::move(name)), fields_(file, name_), mode_(mode) {}

  Graph Read() {
    fields_.AllowOnly({"format", "inputs", "parameters", "nodes", "outputs", "loss"});
    if (fields_.Text("format") != kGraphFormat) {
      fields_.Refuse("format", fields_.Get("format"), fmt::format("\"{}\"", kGraphFormat));
    }
    for (const json& input : fields_.Array("inputs", kMaxGraphInputs)) {
      AddInput({input, Where("input", input, graph_.inputs().size())});
    }
    for (const json& parameter : fields_.Array("parameters", kMaxGraphParameters)) {
      AddParameter({parameter, Where("parameter", parameter, graph_.parameters().size())});
    }
    std::size_t node = 0;
    for (const json& each : fields_.Array("nodes", kMaxNodes)) {
      AddNode({each, Where("node", each, node++)});
    }
    if (const std::size_t outputs = fields_.Object("outputs").size(); outputs > kMaxGraphOutputs) {
      fields_.Fail(
          fmt::format("'outputs' has {} entries; the limit is {}", outputs, kMaxGraphOutputs));
    }
    for (const auto& output : fields_.Object("outputs").items()) {
      if (output.key().empty() || output.key().size() > kMaxGraphNameBytes) {
        fields_.Fail("'outputs' has a name that is empty or too long");
      }
      const ValueId id = Find(fields_, "outputs", output.value());
      At(fields_, [&] { graph_.AddOutput(output.key(), id); });
      CheckPassesNoInput(output.key(), output.value());
    }
    const ValueId loss = Find(fields_, "loss", fields_.Get("loss"));
    At(fields_, [&] { graph_.AddLoss(loss); });
    CheckOutputs(loss);
    At(fields_, [&] { Validate(graph_); });
    return std::move(graph_);
  }

 private:
  // "net.json: node 'head'", or "net.json: node 3" if the node has no name.
  std::string Where(const char* what, const json& object, std::size_t place) const {
    const auto name = object.is_object() ? object.find("name") : object.end();
    const bool named = object.is_object() && name != object.end() && name->is_string();
    if (!named) return fmt::format("{}: {} {}", name_, what, place);
    constexpr std::size_t kMost = 80;
    const std::string text = name->get<std::string>();
    return fmt::format("{}: {} '{}'", name_, what,
                       text.size() <= kMost ? text : text.substr(0, kMost) + "...");
  }

  bool IsLoss(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.source != Source::kNode) return false;
    const Operator& op = graph_.node(value.index).op;
    return std::holds_alternative<CrossEntropy>(op) || std::holds_alternative<SquaredError>(op);
  }

  // Tasks add up one loss and do not keep its rows.
  void CheckOutputs(ValueId loss) const {
    for (const Node& node : graph_.nodes()) {
      const ValueId result = node.results.front();
      if (result == loss || !IsLoss(result)) continue;
      fields_.Fail(fmt::format(
          "node '{}' ({}) is a second loss beside '{}', which 'loss' names; a model has one",
          node.name, RowOf(node.op).name, graph_.value(loss).name));
    }
    for (const GraphOutput& output : graph_.outputs()) {
      const Value& value = graph_.value(output.value);
      const bool has_rows = value.source == Source::kNode && !IsLoss(output.value);
      if (has_rows) continue;
      fields_.Fail(
          fmt::format("output '{}' is '{}', expected a node that is not a loss, such as the logits",
                      output.name, value.name));
    }
  }

  // An output must be a node in evaluation too.
  void CheckPassesNoInput(const std::string& output, const json& node) const {
    const auto passed = passed_inputs_.find(node.get<std::string>());
    if (passed == passed_inputs_.end()) return;
    fields_.Fail(fmt::format(
        "output '{}' is '{}', a dropout that is the input '{}' itself in evaluation; expected a "
        "node that computes something there",
        output, passed->first, passed->second));
  }

  // Runs `act` and prefixes the graph's errors with the place in this file.
  template <class Do>
  void At(const Fields& at, const Do& act) const {
    try {
      act();
    } catch (const Error& error) {
      const std::string what = error.what();
      // The graph's messages may already name the node or parameter.
      const std::string own = at.where().substr(std::min(name_.size() + 2, at.where().size()));
      const bool named = !own.empty() && what.find(own) != std::string::npos;
      throw UsageError(fmt::format("{}: {}", named ? name_ : at.where(), what));
    }
  }

  ValueId Find(const Fields& at, const char* key, const json& name) const {
    if (!name.is_string()) at.Refuse(key, name, "the name of a value");
    const auto found = values_.find(name.get<std::string>());
    if (found == values_.end()) {
      at.Fail(
          fmt::format("'{}' names {}, which is not an input, parameter or earlier node of the file",
                      key, Shown(name)));
    }
    return found->second;
  }

  void Name(const Fields& at, const std::string& name, ValueId value) {
    if (!values_.emplace(name, value).second) {
      at.Fail("an earlier entry has the same name; names must differ");
    }
  }

  void AddInput(const Fields& fields) {
    fields.AllowOnly({"name", "role", "rows", "features", "bound"});
    const std::string name = fields.Name("name");
    const auto role = EnumOf<InputRole>(fields, "role", fields.Get("role"));
    const bool is_integer = role != InputRole::kNumbers && role != InputRole::kTargets;
    const std::int64_t rows = fields.Has("rows") ? fields.Integer("rows", 1, kMaxRows) : 1;
    const std::int64_t features =
        fields.Has("features") ? fields.Integer("features", 1, kMaxFeatures) : 1;
    if (!is_integer && fields.Has("bound")) {
      fields.Fail("has a 'bound', but only integers have one: tokens, labels and lengths");
    }
    const std::int64_t bound = is_integer ? fields.Integer("bound", 1, kMaxRows) : 0;
    At(fields, [&] { Name(fields, name, graph_.AddInput(name, role, rows, features, bound)); });
  }

  Initial InitialOf(const Fields& fields) const {
    const json& value = fields.Get("initial");
    const std::string expected =
        "one of {\"constant\": value}, {\"uniform\": [low, high]}, {\"normal\": [mean, "
        "deviation]}, {\"truncated_normal\": [mean, deviation, low, high]}";
    if (!value.is_object() || value.size() != 1) fields.Refuse("initial", value, expected);
    const std::string kind = value.begin().key();
    const json& numbers = value.begin().value();
    std::vector<float> n;
    if (numbers.is_array() && numbers.size() <= 4) {
      for (const json& number : numbers) n.push_back(FloatOf(fields, "initial", number));
    } else {
      n.push_back(FloatOf(fields, "initial", numbers));
    }
    if (kind == "constant" && n.size() == 1) return Constant{n[0]};
    const bool in_range = n.size() == 2 && n[0] <= n[1] && std::isfinite(n[1] - n[0]);
    if (kind == "uniform" && in_range) return Uniform{n[0], n[1]};
    if (kind == "normal" && n.size() == 2 && n[1] >= 0) return Normal{n[0], n[1]};
    if (kind == "truncated_normal" && n.size() == 4 && n[1] > 0 && n[2] < n[3]) {
      return CheckedRange(fields, {n[0], n[1], n[2], n[3]});
    }
    fields.Fail(fmt::format(
        "'initial' is {}, expected {}; low is at most high (for truncated_normal below it), high - "
        "low is finite, and a deviation is not negative (for truncated_normal above 0)",
        JsonText(value), expected));
  }

  // The kernel draws at most 64 times and then takes the nearest end of the range. With a share of
  // a quarter, that happens to one element in 10^8; with small shares, many elements would be
  // equal.
  static TruncatedNormal CheckedRange(const Fields& fields, const TruncatedNormal& n) {
    constexpr double kLeastShare = 0.25;
    const double share = ShareInRange(n);
    if (share >= kLeastShare) return n;
    fields.Fail(fmt::format(
        "'initial' is {}, but only {:.2g} % of a normal distribution with mean {} and deviation {} "
        "is from {} to {}; at least {:.0f} % must be",
        JsonText(fields.Get("initial")), 100 * share, n.mean, n.deviation, n.low, n.high,
        100 * kLeastShare));
  }

  void AddParameter(const Fields& fields) {
    fields.AllowOnly(
        {"name", "role", "rows", "columns", "initial", "file_shape", "file_layout", "tied_names"});
    Parameter parameter;
    parameter.name = fields.Name("name");
    parameter.role = EnumOf<Role>(fields, "role", fields.Get("role"));
    parameter.rows = fields.Has("rows") ? fields.Integer("rows", 1, kMaxRows) : 1;
    parameter.columns = fields.Integer("columns", 1, kMaxFeatures);
    parameter.initial = InitialOf(fields);
    parameter.decayed = parameter.role != Role::kStatistic;
    const bool is_vector = parameter.role != Role::kMatrix && parameter.role != Role::kEmbedding;
    if (is_vector && parameter.rows != 1) {
      fields.Refuse("rows", fields.Get("rows"), "1 for biases, scales and statistics");
    }
    parameter.file_shape = {parameter.rows, parameter.columns};
    if (is_vector) parameter.file_shape = {parameter.columns};
    if (fields.Has("file_layout")) {
      parameter.file_layout = EnumOf<FileLayout>(fields, "file_layout", fields.Get("file_layout"));
    }
    if (parameter.file_layout == FileLayout::kTransposed) {
      parameter.file_shape = {parameter.columns, parameter.rows};
    }
    ReadFileShape(fields, &parameter);
    elements_ += parameter.rows <= kMaxGraphElements / parameter.columns ? parameter.elements()
                                                                         : kMaxGraphElements + 1;
    if (elements_ > kMaxGraphElements) {
      fields.Fail(fmt::format("with it, the parameters have more than {} elements, the limit",
                              kMaxGraphElements));
    }
    const std::string name = parameter.name;
    ValueId id = kNoValue;
    At(fields, [&] { id = graph_.AddParameter(std::move(parameter)); });
    Name(fields, name, id);
    if (fields.Has("tied_names")) ReadTiedNames(fields, id);
  }

  static void ReadFileShape(const Fields& fields, Parameter* parameter) {
    constexpr std::size_t kMaxRank = 8;
    const bool needed = parameter->file_layout == FileLayout::kConvolution;
    if (!fields.Has("file_shape")) {
      if (needed) fields.Fail("'file_shape' is missing: a convolution's has four dimensions");
      return;
    }
    std::vector<std::int64_t> shape;
    for (const json& size : fields.Array("file_shape", kMaxRank)) {
      shape.push_back(IntegerOf(fields, "file_shape", size, 1, kMaxRows));
    }
    const std::int64_t rows = parameter->rows, columns = parameter->columns;
    const bool fits =
        parameter->file_layout == FileLayout::kSame ||
        (parameter->file_layout == FileLayout::kTransposed &&
         shape == std::vector<std::int64_t>{columns, rows}) ||
        (needed && shape.size() == 4 && shape[0] == rows && columns % shape[1] == 0 &&
         columns / shape[1] % shape[2] == 0 && columns / shape[1] / shape[2] == shape[3]);
    if (!fits) {
      fields.Refuse("file_shape", fields.Get("file_shape"),
                    needed ? "[rows, inputs, height, width], whose last three make the columns"
                           : "[columns, rows]");
    }
    parameter->file_shape = std::move(shape);
  }

  void ReadTiedNames(const Fields& fields, ValueId parameter) {
    constexpr std::size_t kMaxNames = 16;
    for (const json& name : fields.Array("tied_names", kMaxNames)) {
      if (!name.is_string() || name.get<std::string>().empty() ||
          name.get<std::string>().size() > kMaxGraphNameBytes) {
        fields.Refuse("tied_names", name, "names of tensors");
      }
      graph_.AddTiedName(name.get<std::string>(), parameter);
    }
  }

  std::vector<ValueId> OperandsOf(const Fields& fields) const {
    std::vector<ValueId> operands;
    for (const json& name : fields.Array("inputs", kMaxGraphOperands)) {
      operands.push_back(name.is_null() ? kNoValue : Find(fields, "inputs", name));
      if (operands.back() == kNoValue || !IsLoss(operands.back())) continue;
      fields.Fail(
          fmt::format("'inputs' names {}, which is a loss; only 'loss' may name one", Shown(name)));
    }
    return operands;
  }

  void AddNode(const Fields& fields) {
    fields.AllowOnly({"name", "operator", "inputs", "attributes"});
    const std::string name = fields.Name("name");
    const std::string word = fields.Text("operator");
    std::optional<Operator> op = OperatorNamed(word);
    if (!op) {
      std::string names;
      AppendNames(&names);
      fields.Refuse("operator", fields.Get("operator"), "one of " + names);
    }
    static const json kNone = json::object();
    const Fields attributes(fields.Has("attributes") ? fields.Get("attributes") : kNone,
                            fmt::format("{} ({})", fields.where(), word));
    const std::vector<ValueId> operands = OperandsOf(fields);
    if (std::holds_alternative<BatchNorm>(*op)) return AddBatchNorm(fields, attributes, operands);
    std::vector<std::string_view> known;
    std::visit(
        [&](auto& of) {
          using Op = std::decay_t<decltype(of)>;
          Op::Attributes(of, ReadAttribute{attributes});
          Op::Attributes(of, [&known](std::string_view attribute, const auto&) {
            if (!IsDecidedByReader(attribute)) known.push_back(attribute);
          });
        },
        *op);
    attributes.AllowOnly(known);
    Require(attributes, word);
    if (auto* dropout = std::get_if<Dropout>(&*op)) return AddDropout(fields, *dropout, operands);
    if (auto* attention = std::get_if<Attention>(&*op)) NumberDropout(attention);
    At(fields, [&] { Name(fields, name, graph_.Add(name, std::move(*op), operands)); });
    if (graph_.value(values_.at(name)).shape.rows_of == RowsOf::kSample) return;
    fields.Fail(
        fmt::format("reads parameters only; an input of {} must have rows for each sample", word));
  }

  void NumberDropout(Attention* attention) {
    if (attention->dropout == 0.0f) return;
    attention->dropout_stream = dropout_streams_++;
    if (mode_ == Mode::kTraining) return;
    attention->dropout = 0.0f;
    attention->dropout_stream = 0;
  }

  // In evaluation, a dropout's result is its operand.
  void AddDropout(const Fields& fields, Dropout dropout, const std::vector<ValueId>& operands) {
    const std::string name = fields.Name("name");
    NotePassedInput(fields, name);
    dropout.stream = dropout_streams_++;
    if (mode_ == Mode::kTraining) {
      return At(fields, [&] { Name(fields, name, graph_.Add(name, dropout, operands)); });
    }
    if (operands.size() != 1 || operands[0] == kNoValue) fields.Fail("takes one input");
    Name(fields, name, operands[0]);
  }

  void NotePassedInput(const Fields& fields, const std::string& dropout) {
    const json& inputs = fields.Get("inputs");
    if (inputs.size() != 1 || !inputs[0].is_string()) return;
    const std::string read = inputs[0].get<std::string>();
    const auto passed = passed_inputs_.find(read);
    if (passed != passed_inputs_.end()) {
      passed_inputs_[dropout] = passed->second;
    } else if (graph_.value(values_.at(read)).source == Source::kInput) {
      passed_inputs_[dropout] = read;
    }
  }

  // A step assigns one new value to each running mean and variance.
  void TakeStatistic(const Fields& fields, const std::string& node, ValueId statistic) {
    const Value& value = graph_.value(statistic);
    const bool is_statistic = value.source == Source::kParameter &&
                              graph_.parameter(value.index).role == Role::kStatistic;
    if (!is_statistic) {
      fields.Fail(
          fmt::format("its input '{}' must be a parameter of the role \"statistic\"", value.name));
    }
    const auto [owner, is_new] = statistic_owners_.emplace(statistic, node);
    if (is_new) return;
    fields.Fail(fmt::format(
        "its input '{}' is {} node '{}' already; each needs a parameter of its own", value.name,
        owner->second == node ? "the running mean of" : "a statistic of", owner->second));
  }

  // Inputs: x, scale, bias, running mean, running variance.
  void AddBatchNorm(const Fields& fields, const Fields& attributes,
                    const std::vector<ValueId>& operands) {
    attributes.AllowOnly({"epsilon", "momentum"});
    BatchNorm norm;
    RunningAverage average;
    const ReadAttribute read{attributes};
    read("epsilon", norm.epsilon);
    read("momentum", average.momentum);
    constexpr std::size_t kMean = 3, kVariance = 4;
    const bool has_all =
        operands.size() == kVariance + 1 && std::ranges::find(operands, kNoValue) == operands.end();
    if (!has_all) {
      fields.Fail("takes five inputs: x, scale, bias, running mean, running variance");
    }
    const std::string name = fields.Name("name");
    for (const std::size_t i : {kMean, kVariance}) TakeStatistic(fields, name, operands[i]);
    At(fields, [&] {
      graph_.AddStepCounter(name + ".num_batches_tracked");
      if (mode_ == Mode::kEvaluation) {
        return Name(fields, name, graph_.Add(name, BatchNormInference{norm.epsilon}, operands));
      }
      const std::vector<ValueId> results =
          graph_.node(graph_.AddNode(name, norm, {operands[0], operands[1], operands[2]})).results;
      average.positions = graph_.value(operands[0]).shape.rows;
      graph_.AddAssignment(graph_.value(operands[kMean]).index,
                           graph_.Add(name + ".new_mean", average, {operands[kMean], results[1]}));
      average.correction = Correction::kUnbiased;
      graph_.AddAssignment(
          graph_.value(operands[kVariance]).index,
          graph_.Add(name + ".new_var", average, {operands[kVariance], results[2]}));
      Name(fields, name, results[0]);
    });
  }

  const std::string name_;
  const Fields fields_;
  const Mode mode_;
  Graph graph_;
  std::map<std::string, ValueId> values_;  // by the names of the file
  // For dropouts of inputs: the input that each passes on in evaluation.
  std::map<std::string, std::string> passed_inputs_;
  std::map<ValueId, std::string> statistic_owners_;  // the batch norm of each running statistic
  std::int64_t dropout_streams_ = 0;
  std::int64_t elements_ = 0;  // of all parameters
};

}  // namespace

Graph ReadGraph(std::string_view text, const std::string& name, Mode mode) {
  if (static_cast<std::int64_t>(text.size()) > kMaxGraphFileBytes) {
    throw UsageError(fmt::format("{}: is longer than the limit of {} bytes of a graph file", name,
                                 kMaxGraphFileBytes));
  }
  json file;
  std::optional<std::string> repeated;
  try {
    file = ParseJson(text, &repeated);
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("{}: is not valid JSON: {}", name, problem.what()));
  }
  if (repeated) {
    throw UsageError(
        fmt::format("{}: has the key {} more than once in one object; remove all but one", name,
                    Shown(json(*repeated))));
  }
  return Reader(file, name, mode).Read();
}

}  // namespace acan::model
