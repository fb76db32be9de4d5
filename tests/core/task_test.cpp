// A task description survives encoding, and anything that a broken or hostile sender makes of it is
// refused before it reaches a device.
#include "acan/core/task.h"

#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/core/task_encoder.h"
#include "acan/core/task_limits.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Payload;

// z[8, 4] = x[8, 16] * w[4, 16]^T, then relu(z + bias); x arrives in two pieces.
Task Sample() {
  Task task;
  task.kind = TaskKind::kForward;
  task.block = 16;
  task.timed = true;
  task.buffers = {{8, 16}, {4, 16}, {8, 4}, {1, 4}};
  task.pieces = {{0, 0, 0, 0, 8, 8}, {1, 0, 0, 8, 8, 8}, {2, 1, 0, 0, 4, 16}, {3, 3, 0, 0, 1, 4}};
  Call product;
  product.gemm = true;
  product.form = GemmForm::kForward;
  product.views = {{0, 0, 0, 8, 16}, {1, 0, 0, 4, 16}, {2, 0, 0, 8, 4}};
  Call activation;
  activation.kernel = Kernel::kBiasActivation;
  activation.views = {{2, 0, 0, 8, 4}, {2, 0, 0, 8, 4}, {3, 0, 0, 1, 4}, {}};
  activation.scalars.f[0] = 6.5f;
  activation.scalars.i[0] = static_cast<std::int64_t>(Activation::kRelu);
  task.calls = {product, activation};
  task.outputs = {{Key{"job", std::int64_t{3}, "act"}, {2, 0, 0, 8, 4}, true},
                  {Key{"job", std::int64_t{3}, "half"}, {2, 0, 2, 8, 2}, false}};
  task.ahead = {{Key{"job", std::int64_t{4}, "act"}, 512}};
  return task;
}
constexpr std::size_t kInputs = 4;

Call FillOf(const View& view) {
  Call fill;
  fill.kernel = Kernel::kFill;
  fill.views = {view};
  return fill;
}

std::vector<std::uint32_t> ZeroedOf(const Task& task, std::size_t inputs = 0) {
  return DecodeTask(EncodeTask(task), inputs).zeroed;
}

TEST(TaskTest, AnEncoderDescribesEachTaskAsItIs) {
  TaskEncoder encoder;
  const auto expect_same = [&encoder](const Task& task) {
    for (int times = 0; times < 2; ++times) {
      EXPECT_TRUE(encoder.Encode(task).text() == EncodeTask(task).text());
    }
  };
  Task task = Sample();
  expect_same(task);
  task.ahead.clear();
  expect_same(task);
  const std::vector<std::function<void()>> changes = {
      [&] {
        task.outputs[0].key = Key{"job", std::int64_t{4}, "act"};
      },
      [&] { std::swap(task.outputs[0].key, task.outputs[1].key); },
      [&] { task.outputs[1].keep = true; },
      [&] { task.outputs[1].may_be_resident = true; },
      [&] { task.outputs[1].view.col = 1; },
      [&] { task.outputs.pop_back(); },
      [&] { task.calls[1].scalars.f[1] = -0.0f; },
      [&] { task.calls[1].scalars.f[1] = 0.0f; },
      [&] { task.calls[1].scalars.f[0] = std::numeric_limits<float>::quiet_NaN(); },
      [&] { task.calls[1].scalars.i[0] = 0; },
      [&] { task.calls[0].form = GemmForm::kBackward; },
      [&] { task.calls[0].views[1].rows = 3; },
      [&] { task.calls[1].kernel = Kernel::kAdd; },
      [&] { task.calls.pop_back(); },
      [&] { task.pieces[0].col = 1; },
      [&] { task.pieces.pop_back(); },
      [&] { task.buffers[0].rows = 9; },
      [&] { task.kind = TaskKind::kUpdate; },
      [&] { task.precision = Precision::kFast; },
      [&] { task.block = 64; },
      [&] { task.timed = false; },
      [&] { task.chunk = 3; },
      [&] { task.ahead = Sample().ahead; },
      [&] { task.ahead[0].bytes = 1; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    changes[i]();
    expect_same(task);
  }
}

// A task must not see what its device's memory had before.
TEST(TaskTest, BuffersThatMayBeReadBeforeTheyAreWholeBeginAsZeros) {
  EXPECT_TRUE(ZeroedOf(Sample(), kInputs).empty()) << "two pieces are the whole buffer";
  Task gap = Sample();
  gap.pieces[1].cols = 7;
  EXPECT_EQ(ZeroedOf(gap, kInputs), std::vector<std::uint32_t>{0});
  Task overlap = Sample();
  overlap.pieces[1] = {1, 0, 0, 7, 8, 8};
  EXPECT_EQ(ZeroedOf(overlap, kInputs), std::vector<std::uint32_t>{0});

  Task task;
  task.buffers = {{4, 6}};
  task.block = 16;
  task.outputs = {{Key{"job", std::int64_t{3}, "act"}, {0, 0, 0, 4, 6}}};
  const auto zeroed = [&](const std::vector<View>& parts) {
    task.calls.clear();
    for (const View& part : parts) task.calls.push_back(FillOf(part));
    return !ZeroedOf(task).empty();
  };
  EXPECT_FALSE(zeroed({{0, 0, 0, 4, 6}}));
  EXPECT_TRUE(zeroed({{0, 0, 0, 1, 1}}));
  EXPECT_FALSE(zeroed({{0, 0, 0, 2, 6}, {0, 2, 0, 2, 6}})) << "rows";
  EXPECT_FALSE(zeroed({{0, 0, 3, 4, 3}, {0, 0, 0, 4, 3}})) << "columns";
  EXPECT_FALSE(zeroed({{0, 0, 0, 2, 6}, {0, 2, 0, 2, 3}, {0, 2, 3, 2, 3}, {0, 0, 0, 2, 6}}));
  EXPECT_TRUE(zeroed({{0, 0, 0, 2, 6}, {0, 2, 0, 2, 3}, {0, 3, 3, 1, 3}})) << "a gap";
  EXPECT_TRUE(zeroed({{0, 0, 0, 2, 6}, {0, 0, 0, 2, 6}, {0, 0, 0, 2, 5}}))
      << "as many elements as the whole, but not all of them";
  task.outputs[0].view = {0, 1, 1, 2, 2};
  EXPECT_FALSE(zeroed({{0, 0, 0, 3, 3}})) << "only what was written is read";
}

TEST(TaskTest, SurvivesTheWire) {
  const Task sent = Sample();
  const Task task = DecodeTask(EncodeTask(sent), kInputs);
  EXPECT_EQ(task.kind, sent.kind);
  EXPECT_EQ(task.block, 16);
  EXPECT_TRUE(task.timed);
  ASSERT_EQ(task.buffers.size(), 4u);
  EXPECT_EQ(task.buffers[1].rows, 4);
  ASSERT_EQ(task.pieces.size(), 4u);
  EXPECT_EQ(task.pieces[1].col, 8);
  ASSERT_EQ(task.calls.size(), 2u);
  EXPECT_TRUE(task.calls[0].gemm);
  EXPECT_EQ(task.calls[1].kernel, Kernel::kBiasActivation);
  EXPECT_EQ(task.calls[1].scalars, sent.calls[1].scalars);
  EXPECT_LT(task.calls[1].views[3].buffer, 0);
  ASSERT_EQ(task.outputs.size(), 2u);
  EXPECT_EQ(task.outputs[1].key, sent.outputs[1].key);
  EXPECT_TRUE(task.outputs[0].keep);
  ASSERT_EQ(task.ahead.size(), 1u);
  EXPECT_EQ(task.ahead[0].key, sent.ahead[0].key);
  EXPECT_EQ(task.ahead[0].bytes, 512u);
}

TEST(TaskTest, NeedIsThatOfGatheringOrOfComputing) {
  // Before computing, the two pieces are in memory together with the buffer that they are copied
  // into.
  const std::uint64_t inputs = 4 * (8 * 8 * 2 + 4 * 16 + 4);
  EXPECT_EQ(MemoryOf(Sample()).gathering_bytes, inputs + 4 * 8 * 16);
  EXPECT_EQ(NeedBytes(Sample()), inputs + 4 * 8 * 16);
  Task task = Sample();
  task.buffers.push_back({100, 16});
  const std::uint64_t buffers = 4 * (8 * 16 + 4 * 16 + 8 * 4 + 4 + 100 * 16);
  const std::uint64_t cut_out = 4 * (8 * 2);
  EXPECT_EQ(MemoryOf(task).computing_bytes, buffers + cut_out);
  EXPECT_EQ(NeedBytes(task), buffers + cut_out);
  EXPECT_EQ(WholeInputs(task, 4), (std::vector<bool>{false, false, true, true}));
}

// A handler keeps each tuple as if it had its own memory.
TEST(TaskTest, TuplesThatAreOneBufferCountMoreThanOnce) {
  Task task;
  task.block = 16;
  task.buffers = {{4, 8}, {4, 8}};
  task.pieces = {{0, 0, 0, 0, 4, 8}};
  task.calls = {FillOf({1, 0, 0, 4, 8})};
  const std::uint64_t buffer = task.buffers[0].bytes();
  const auto need = [&](const std::vector<std::int32_t>& whole_results) {
    task.outputs.clear();
    for (const std::int32_t of : whole_results) {
      const auto number = static_cast<std::int64_t>(task.outputs.size());
      task.outputs.push_back({Key{"job", std::int64_t{3}, "act", number}, {of, 0, 0, 4, 8}, true});
    }
    return NeedBytes(DecodeTask(EncodeTask(task), 1));
  };
  EXPECT_EQ(need({1}), 2 * buffer);
  EXPECT_EQ(need({1, 1, 1}), 4 * buffer);
  EXPECT_EQ(need({0}), 3 * buffer) << "an input and a result";
}

TEST(TaskTest, AnInputWithoutPiecesIsNoBuffer) {
  EXPECT_EQ(WholeInputs(Sample(), kInputs + 1),
            (std::vector<bool>{false, false, true, true, false}));
}

TEST(TaskTest, RefusesWhatCannotBeRun) {
  const std::vector<std::pair<const char*, std::function<void(Task&)>>> damages = {
      {"piece of an input that is not there", [](Task& t) { t.pieces[3].input = 4; }},
      {"piece of a buffer that is not there", [](Task& t) { t.pieces[0].buffer = 9; }},
      {"piece beyond its buffer", [](Task& t) { t.pieces[1].col = 9; }},
      {"negative place", [](Task& t) { t.pieces[1].row = -1; }},
      {"place that overflows", [](Task& t) { t.pieces[1].col = INT32_MAX; }},
      {"empty piece", [](Task& t) { t.pieces[1].rows = 0; }},
      {"two whole inputs",
       [](Task& t) {
         t.pieces.push_back({2, 1, 0, 0, 4, 16});
       }},
      {"buffer without size", [](Task& t) { t.buffers[2].rows = 0; }},
      {"enormous buffer", [](Task& t) { t.buffers[2].cols = (1 << 24) + 1; }},
      {"block that is no power of two", [](Task& t) { t.block = 48; }},
      {"small block", [](Task& t) { t.block = 8; }},
      {"negative block", [](Task& t) { t.block = -64; }},
      {"product of wrong shapes", [](Task& t) { t.calls[0].views[1].rows = 3; }},
      {"product with two operands", [](Task& t) { t.calls[0].views.pop_back(); }},
      {"product without a result", [](Task& t) { t.calls[0].views[2] = {}; }},
      {"operand outside", [](Task& t) { t.calls[0].views[0].row = 1; }},
      {"operand of no buffer", [](Task& t) { t.calls[1].views[0].buffer = 4; }},
      {"kernel with too few operands", [](Task& t) { t.calls[1].views.pop_back(); }},
      {"kernel with wrong shapes",
       [](Task& t) {
         t.calls[1].views[2] = {3, 0, 0, 1, 3};
       }},
      {"input that is written",
       [](Task& t) {
         t.calls[1].views[0] = {1, 0, 0, 4, 4};
         t.calls[1].views[1] = {1, 0, 0, 4, 4};
       }},
      {"read before it is written", [](Task& t) { t.calls.erase(t.calls.begin()); }},
      {"kind of earlier versions", [](Task& t) { t.kind = static_cast<TaskKind>(2); }},
      {"kind that never was", [](Task& t) { t.kind = static_cast<TaskKind>(6); }},
      {"no results", [](Task& t) { t.outputs.clear(); }},
      {"result outside", [](Task& t) { t.outputs[1].view.col = 3; }},
      {"result of no buffer", [](Task& t) { t.outputs[1].view.buffer = -1; }},
      {"result without a key", [](Task& t) { t.outputs[1].key = Key(); }},
      {"two results with one key", [](Task& t) { t.outputs[1].key = t.outputs[0].key; }},
  };
  for (const auto& [what, damage] : damages) {
    Task task = Sample();
    damage(task);
    EXPECT_THROW(DecodeTask(EncodeTask(task), kInputs), std::invalid_argument) << what;
  }
}

// Each of them may cause far more work than its bytes suggest.
TEST(TaskTest, LimitsTheNumberOfEachKindOfPart) {
  const auto is_taken = [](const Task& task) {
    try {
      DecodeTask(EncodeTask(task), kInputs);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  const auto key = [](std::size_t number) {
    return Key{"job", std::int64_t{4}, "act", static_cast<std::int64_t>(number)};
  };
  constexpr std::size_t kMostResults = 4096;  // as many as a space takes
  Task makes = Sample();
  const auto add_result = [&] {
    makes.outputs.push_back({key(makes.outputs.size()), {2, 0, 0, 1, 1}, false});
  };
  while (makes.outputs.size() < kMostResults) add_result();
  EXPECT_TRUE(is_taken(makes) && IsWithinLimits(makes));
  add_result();
  EXPECT_FALSE(is_taken(makes) || IsWithinLimits(makes));

  constexpr std::size_t kMostPieces = 65536;
  Task gathers = Sample();
  gathers.pieces.resize(kMostPieces, Sample().pieces[0]);
  EXPECT_TRUE(is_taken(gathers) && IsWithinLimits(gathers));
  gathers.pieces.push_back(Sample().pieces[0]);
  EXPECT_FALSE(is_taken(gathers) || IsWithinLimits(gathers));

  Task tells = Sample();
  while (tells.ahead.size() < kMaxAhead) tells.ahead.push_back({key(tells.ahead.size()), 512});
  EXPECT_TRUE(is_taken(tells));
  tells.ahead.push_back({key(kMaxAhead), 512});
  EXPECT_FALSE(is_taken(tells));
}

// A column norm of two rows, so that its statistics have the shape of its result.
TEST(TaskTest, RefusesResultsOverWhatTheyMustNotBe) {
  Task task;
  task.block = 16;
  task.buffers = {{2, 4}, {2, 4}, {1, 4}, {2, 6}};
  task.pieces = {{0, 0, 0, 0, 2, 4}, {1, 2, 0, 0, 1, 4}};
  const View x{0, 0, 0, 2, 4}, statistics{1, 0, 0, 2, 4}, scale{2, 0, 0, 1, 4};
  for (const std::int32_t buffer : {1, 3}) {
    Call fill;
    fill.kernel = Kernel::kFill;
    fill.views = {{buffer, 0, 0, 2, task.buffers[static_cast<std::size_t>(buffer)].cols}};
    task.calls.push_back(fill);
  }
  Call norm;
  norm.kernel = Kernel::kColumnNorm;
  task.calls.push_back(norm);
  task.outputs = {{Key{"job", std::int64_t{3}, "act"}, {3, 0, 0, 2, 4}, false}};
  const auto decode = [&](const View& out, const View& in) {
    task.calls.back().views = {out, in, statistics, scale, scale};
    return DecodeTask(EncodeTask(task), 2);
  };
  const View first{3, 0, 0, 2, 4}, shifted{3, 0, 2, 2, 4};
  EXPECT_NO_THROW(decode(first, x));
  EXPECT_NO_THROW(decode(first, first)) << "in place";
  using Invalid = std::invalid_argument;
  EXPECT_THAT(
      [&] { decode(statistics, x); },
      testing::ThrowsMessage<Invalid>(testing::HasSubstr(
          "operand 0, which is written, overlaps operand 2: out[rows, cols] must not overlap "
          "statistics[2, cols]")));
  EXPECT_THAT([&] { decode(first, shifted); },
              testing::ThrowsMessage<Invalid>(testing::HasSubstr(
                  "must be the same matrix as, or lie apart from, x[rows, cols]")));
}

// A handler that computes other bits must not do the task.
TEST(TaskTest, RefusesOtherRevisionsOfTheNumerics) {
  const Payload task = EncodeTask(Sample());
  std::vector<std::uint8_t> bytes(task.size());
  std::memcpy(bytes.data(), task.data(), task.size());
  constexpr flatbuffers::voffset_t kVersionField = 4;  // the first field of the table
  ASSERT_TRUE(flatbuffers::GetMutableRoot<flatbuffers::Table>(bytes.data())
                  ->SetField<std::uint32_t>(kVersionField, kTaskVersion + 1, 0));
  const auto decode = [&] { DecodeTask(Payload::Copy(bytes.data(), bytes.size()), kInputs); };
  EXPECT_THAT(decode, testing::ThrowsMessage<std::invalid_argument>(
                          testing::HasSubstr("this program computes revision")));
}

TEST(TaskTest, RefusesDamagedBytes) {
  const Payload whole = EncodeTask(Sample());
  std::mt19937 random(7);
  for (std::size_t size = 0; size < whole.size(); size += 3) {
    EXPECT_THROW(DecodeTask(Payload::Copy(whole.data(), size), kInputs), std::invalid_argument);
  }
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(whole.bytes().begin(), whole.bytes().end());
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << (random() % 8));
    }
    try {
      const Task task = DecodeTask(Payload::Copy(bytes.data(), bytes.size()), kInputs);
      for (const Call& call : task.calls) ASSERT_LE(call.views.size(), 7u);
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(NamesTest, CapacityAndReportSurviveTheirText) {
  Capacity capacity;
  capacity.name = "cpu:2 on host";
  capacity.memory_bytes = 1ull << 40;
  capacity.gflops = 12.5;
  capacity.exact = true;
  const auto back = CapacityFromJson(CapacityToJson(capacity));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->name, capacity.name);
  EXPECT_EQ(back->memory_bytes, capacity.memory_bytes);
  EXPECT_TRUE(back->exact);
  EXPECT_EQ(*back, capacity);
  EXPECT_FALSE(CapacityFromJson("{}"));
  EXPECT_FALSE(CapacityFromJson("not json"));
  EXPECT_FALSE(
      ReportFromJson(ReportToJson({5, 1, 2, 4096, 0.5}) + std::string(kMaxReportBytes, ' ')));
  const auto report = ReportFromJson(ReportToJson({5, 1, 2, 4096, 0.5}));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->peak_bytes, 4096u);
  EXPECT_EQ(report->speed, 1);
}

TEST(NamesTest, TheSpeedOfAReportSurvivesItsTextWithinItsLimits) {
  Report report;
  for (const double speed : {kMinSpeed, 0.4, kMaxSpeed}) {
    report.speed = speed;
    const auto back = ReportFromJson(ReportToJson(report));
    ASSERT_TRUE(back) << speed;
    EXPECT_EQ(back->speed, speed);
  }
  for (const double speed : {-1.0, 0.0, 0.001, 8.1, 1e300}) {
    report.speed = speed;
    EXPECT_FALSE(ReportFromJson(ReportToJson(report))) << speed;
  }
}

TEST(NamesTest, TheLinkOfACapacitySurvivesItsText) {
  Capacity capacity;
  capacity.bytes_travel = true;
  capacity.host = "10.0.0.7";
  capacity.host_threads = 16;
  capacity.link_ns_per_kib = 81'920;
  capacity.link_round_trip_us = 200;
  const std::string text = CapacityToJson(capacity);
  ASSERT_TRUE(CapacityFromJson(text));
  EXPECT_EQ(*CapacityFromJson(text), capacity);
  std::string too_much = text;
  too_much.replace(too_much.find("81920"), 5, "9000000000");
  EXPECT_FALSE(CapacityFromJson(too_much));
}

TEST(NamesTest, TheMachineOfACapacitySurvivesItsText) {
  Capacity capacity;
  capacity.machine = "00f50d8c-4d75";
  capacity.cpus = {0, 1, 4095};
  capacity.busy_cpus = 1.5;
  const std::string text = CapacityToJson(capacity);
  ASSERT_TRUE(CapacityFromJson(text));
  EXPECT_EQ(*CapacityFromJson(text), capacity);
  const auto with_cpus = [&](const std::string& cpus) {
    std::string other = text;
    const std::size_t at = other.find("[0,1,4095]");
    return CapacityFromJson(other.replace(at, 10, cpus));
  };
  EXPECT_EQ(with_cpus("[3,1]")->cpus, (std::vector<int>{1, 3}));
  for (const char* cpus : {"[1,1]", "[-1]", "[100000]", "[0.5]", "[\"1\"]", "7", "null"}) {
    EXPECT_FALSE(with_cpus(cpus)) << cpus;
  }
  std::string nameless = text;
  nameless.replace(nameless.find(capacity.machine), capacity.machine.size(), "");
  const auto without = CapacityFromJson(nameless);
  ASSERT_TRUE(without);
  EXPECT_EQ(*without, *CapacityFromJson(CapacityToJson(*without)));
  std::string many = "[0";
  for (int cpu = 1; cpu < 5000; ++cpu) many += "," + std::to_string(cpu);
  EXPECT_FALSE(with_cpus(many + "]"));
}

// The numbers go into the receipt, whose readers refuse values below 0 or beyond an int64.
TEST(NamesTest, NumbersThatNoHandlerHasAreMalformed) {
  const std::string capacity = CapacityToJson({});
  const std::string report = ReportToJson({});
  ASSERT_TRUE(CapacityFromJson(capacity) && ReportFromJson(report));
  const auto with = [](std::string text, const std::string& name, const std::string& value) {
    const std::size_t at = text.find(':', text.find('"' + name + '"')) + 1;
    return text.replace(at, text.find_first_of(",}", at) - at, value);
  };
  for (const char* value : {"-1", "18446744073709551615", "9223372036854775808", "1e300", "null"}) {
    for (const char* name : {"limit_bytes", "memory_bytes", "threads", "gflops"}) {
      EXPECT_FALSE(CapacityFromJson(with(capacity, name, value))) << name << " " << value;
    }
    for (const char* name : {"tasks", "failed", "tile_hits", "peak_bytes", "gflop"}) {
      EXPECT_FALSE(ReportFromJson(with(report, name, value))) << name << " " << value;
    }
  }
  EXPECT_TRUE(CapacityFromJson(with(capacity, "memory_bytes", "1024")));
}

TEST(NamesTest, TextsOfACapacityAreShortLines) {
  Capacity capacity;
  capacity.name = "cpu:1\n12:00:00 manager: done\x1b[2J";
  capacity.device = std::string(255, 'x') + "\u00e4" + std::string(10'000, 'x');
  const auto back = CapacityFromJson(CapacityToJson(capacity));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->name, "cpu:1 12:00:00 manager: done [2J");
  EXPECT_EQ(back->device, std::string(255, 'x'));  // no partial character: JSON cannot contain it
}

TEST(NamesTest, VersionsOfATileDifferInTheirStepOnly) {
  const Key one{"job", std::int64_t{1}, "tile", std::int64_t{0}};
  const Key two{"job", std::int64_t{2}, "tile", std::int64_t{0}};
  const Key other{"job", std::int64_t{2}, "tile", std::int64_t{1}};
  EXPECT_EQ(WithoutStep(one), WithoutStep(two));
  EXPECT_NE(WithoutStep(two), WithoutStep(other));
}

TEST(NamesTest, HandlersAskOnlyForWhatTheyCanRun) {
  const Key exact{"job", std::int64_t{1}, "task", "exact", "forward", std::int64_t{0}};
  const Key fast{"job", std::int64_t{1}, "task", "fast", "forward", std::int64_t{0}};
  const Key tile{"job", std::int64_t{1}, "tile", "exact", "forward", std::int64_t{0}};
  EXPECT_TRUE(RunnableTasks(true, true).Matches(exact));
  EXPECT_TRUE(RunnableTasks(true, true).Matches(fast));
  EXPECT_FALSE(RunnableTasks(true, true).Matches(tile));
  EXPECT_FALSE(RunnableTasks(false, true).Matches(exact));
  EXPECT_TRUE(RunnableTasks(false, true).Matches(fast));
  EXPECT_FALSE(RunnableTasks(true, false).Matches(fast));
}

}  // namespace
}  // namespace acan
