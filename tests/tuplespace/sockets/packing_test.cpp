// Messages are cut into parts and reassembled; parts that are lost, foreign or garbage.
#include "packing.h"
#include "bytes.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <string>

#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

using Part = std::vector<std::byte>;

struct Message {
  std::string control;
  std::vector<Payload> payloads;
};

Message MessageOf(std::size_t control_bytes, const std::vector<std::size_t>& sizes) {
  std::mt19937_64 random(control_bytes + sizes.size());
  const auto text = [&](std::size_t bytes) {
    std::string made(bytes, '\0');
    for (char& c : made) c = static_cast<char>(random());
    return made;
  };
  Message message{text(control_bytes), {}};
  for (const std::size_t size : sizes) message.payloads.push_back(Payload::Copy(text(size)));
  return message;
}

std::vector<Part> PartsOf(const Message& message, std::uint64_t number) {
  SendProgress progress{number, 0};
  std::vector<Part> parts;
  for (;;) {
    // A new Packer each time, as after the socket was full.
    Packer packer(AsBytes(message.control), message.payloads, progress);
    if (packer.done()) return parts;
    parts.emplace_back(packer.PartBytes());
    packer.CopyPart(parts.back());
    packer.Advance();
  }
}

Message ToMessage(const UnpackedWhole& whole, const Part& part) {
  Message message;
  const auto* const data = reinterpret_cast<const char*>(part.data());
  message.control.assign(data + whole.control_begin, whole.control_bytes);
  for (const auto& range : whole.payloads) {
    message.payloads.push_back(Payload::Copy(data + range.begin, range.bytes));
  }
  return message;
}

// Returns the message that the last part completes; with an empty control frame if it completes
// none.
Message Join(Assembly& assembly, const std::vector<Part>& parts) {
  Message message;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Assembly::Result result = assembly.Add(parts[i]);
    if (const auto* error = std::get_if<RequestError>(&result)) ADD_FAILURE() << error->text;
    EXPECT_EQ(std::holds_alternative<Assembly::More>(result), i + 1 < parts.size()) << i;
    if (const auto* whole = std::get_if<UnpackedWhole>(&result)) return ToMessage(*whole, parts[i]);
    if (auto* joined = std::get_if<Assembled>(&result)) {
      message.control.assign(reinterpret_cast<const char*>(joined->control.data()),
                             joined->control.size());
      message.payloads = std::move(joined->payloads);
    }
  }
  return message;
}

void ExpectSame(const Message& one, const Message& other) {
  EXPECT_TRUE(one.control == other.control);
  ASSERT_EQ(one.payloads.size(), other.payloads.size());
  for (std::size_t i = 0; i < one.payloads.size(); ++i) {
    EXPECT_TRUE(one.payloads[i].text() == other.payloads[i].text()) << i;
  }
}

std::string ErrorOf(const Assembly::Result& result) {
  const auto* error = std::get_if<RequestError>(&result);
  return error == nullptr ? "none" : error->text;
}

// The part with a number at this offset of its head replaced.
template <typename Number>
Part With(Part part, std::size_t offset, Number number) {
  std::memcpy(part.data() + offset, &number, sizeof(number));
  return part;
}

TEST(Packing, EveryShapeComesBack) {
  const std::vector<std::vector<std::size_t>> shapes = {
      {},
      {513},
      {0},
      {0, 0},
      {1, 0, 63, 64, 65, 0},
      {kPartBytes},
      {3 * kPartBytes + 1},
      {1000, 2 * kPartBytes, 0, 700, kPartBytes - 64, 0},
      std::vector<std::size_t>(3000, 600)};
  std::uint64_t number = 1;
  Assembly assembly({});
  for (const auto& sizes : shapes) {
    for (const std::size_t control_bytes :
         {0ul, 5ul, 200ul, kPartBytes - 33, kPartBytes - 32, kPartBytes, 2 * kPartBytes + 3}) {
      SCOPED_TRACE(control_bytes);
      const Message message = MessageOf(control_bytes, sizes);
      const std::vector<Part> parts = PartsOf(message, number++);
      for (const Part& part : parts) EXPECT_LE(part.size(), kPartBytes);
      ExpectSame(Join(assembly, parts), message);
      EXPECT_TRUE(assembly.empty());
    }
  }
}

TEST(Packing, PayloadsOfSeveralPartsAreAligned) {
  Assembly assembly({});
  const Message joined = Join(assembly, PartsOf(MessageOf(77, {700, kPartBytes + 1, 1000}), 1));
  for (const Payload& payload : joined.payloads) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % 64, 0u);
  }
}

// A connection ended in between: the message is dropped, and the next one is complete.
TEST(Packing, LostPartsLoseTheirMessageOnly) {
  const Message message = MessageOf(100, {5 * kPartBytes});
  const Message next = MessageOf(90, {2 * kPartBytes, 800});
  const std::vector<Part> parts = PartsOf(message, 7);
  for (std::size_t lost_from = 0; lost_from < parts.size(); ++lost_from) {
    for (std::size_t lost_to = lost_from + 1; lost_to <= parts.size(); ++lost_to) {
      Assembly assembly({});
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i >= lost_from && i < lost_to) continue;
        EXPECT_TRUE(std::holds_alternative<Assembly::More>(assembly.Add(parts[i]))) << i;
      }
      ExpectSame(Join(assembly, PartsOf(next, 8)), next);
    }
  }
}

// Everything between some part of one message and the same part of the next one was lost.
TEST(Packing, PartsOfAnotherMessageAreNotTaken) {
  const std::vector<Part> one = PartsOf(MessageOf(100, {4 * kPartBytes}), 7);
  const std::vector<Part> other = PartsOf(MessageOf(100, {4 * kPartBytes}), 8);
  ASSERT_EQ(one.size(), other.size());
  Assembly assembly({});
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto result = assembly.Add(i < 2 ? one[i] : other[i]);
    EXPECT_TRUE(std::holds_alternative<Assembly::More>(result)) << i;
  }
  EXPECT_TRUE(assembly.empty());
}

TEST(Packing, LimitsAreNamed) {
  PackingLimits limits;
  limits.control_bytes = 1000;
  limits.payload_bytes = 10 * kPartBytes;
  limits.message_bytes = 15 * kPartBytes;
  Assembly assembly(limits);
  EXPECT_THAT(ErrorOf(assembly.Add(PartsOf(MessageOf(1001, {}), 1)[0])),
              HasSubstr("1001 bytes, at most 1000"));
  EXPECT_THAT(ErrorOf(assembly.Add(PartsOf(MessageOf(10, {10 * kPartBytes + 1}), 1)[0])),
              HasSubstr("at most " + std::to_string(10 * kPartBytes)));
  EXPECT_THAT(ErrorOf(assembly.Add(PartsOf(MessageOf(10, {9 * kPartBytes, 9 * kPartBytes}), 1)[0])),
              HasSubstr("at most " + std::to_string(15 * kPartBytes)));
  EXPECT_TRUE(assembly.empty());
}

TEST(Packing, HeadsThatDoNotFitAreRefused) {
  Assembly assembly({});
  const Part good = PartsOf(MessageOf(100, {1000, 2000}), 1)[0];
  EXPECT_NE(ErrorOf(assembly.Add({})), "none");
  EXPECT_NE(ErrorOf(assembly.Add(std::span(good).first(kPackedHeadBytes - 1))), "none");
  EXPECT_NE(ErrorOf(assembly.Add(With(good, 4, 'B'))), "none");
  EXPECT_THAT(ErrorOf(assembly.Add(With(good, 12, std::uint32_t{131'073}))),
              HasSubstr("131073 payload frames, at most 131072"));
  EXPECT_NE(ErrorOf(assembly.Add(With(good, 8, std::uint32_t{5000}))), "none");
  EXPECT_NE(ErrorOf(assembly.Add(With(good, 24, std::uint64_t{good.size() - 1}))), "none");
  EXPECT_NE(ErrorOf(assembly.Add(With(good, 24, std::uint64_t{good.size() + 1}))), "none");
  for (const std::uint64_t size : {0ull, 900ull, 1100ull, ~0ull, ~0ull - 1200}) {
    EXPECT_NE(ErrorOf(assembly.Add(With(good, 136, size))), "none") << size;
  }
  EXPECT_TRUE(assembly.empty());
  EXPECT_EQ(ErrorOf(assembly.Add(good)), "none");
}

// A sender that announces a huge payload does not make the receiver allocate it.
TEST(Packing, AClaimedPayloadWithoutMemoryIsRefused) {
  Message message = MessageOf(100, {2 * kPartBytes});
  Part part = PartsOf(message, 1)[0];
  const std::uint64_t size = 1ull << 60;
  part = With(With(part, 136, size), 24, std::uint64_t{192 + size});
  Assembly assembly({});
  EXPECT_THAT(ErrorOf(assembly.Add(part)), HasSubstr("no memory for a payload"));
  EXPECT_TRUE(assembly.empty());
}

TEST(Packing, WhateverComesNothingButThatMessageIsLost) {
  std::mt19937_64 random(1);
  PackingLimits limits;
  limits.control_bytes = 1 << 20;
  limits.payload_bytes = limits.message_bytes = 4 * kPartBytes;
  Assembly assembly(limits);
  const std::vector<Part> good = PartsOf(MessageOf(300, {kPartBytes, 700, kPartBytes}), 5);
  for (int i = 0; i < 5'000; ++i) {
    Part part = good[random() % good.size()];
    const std::size_t head = random() % 160;
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
      part[head] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) part.resize(random() % part.size());
    assembly.Add(part);
  }
  const Message message = MessageOf(100, {3 * kPartBytes});
  ExpectSame(Join(assembly, PartsOf(message, 6)), message);
}

// A program of another version finds the version number at the same place as in a plain control
// frame.
TEST(Packing, TheVersionIsWhereItAlwaysWas) {
  Encoder encoder;
  encoder.Begin(0, {.version = 77});
  encoder.Add(Ping{});
  const auto control = encoder.Finish();
  EXPECT_THAT(VersionProblem(control)->text, HasSubstr("version 77"));
  const Message message{{reinterpret_cast<const char*>(control.data()), control.size()}, {}};
  EXPECT_THAT(VersionProblem(PartsOf(message, 1)[0])->text, HasSubstr("version 77"));
  EXPECT_FALSE(VersionProblem(AsBytes(std::string(100, 'x'))));
  EXPECT_FALSE(VersionProblem({}));
}

}  // namespace
}  // namespace tuplespace
