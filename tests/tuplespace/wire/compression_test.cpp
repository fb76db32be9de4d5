// Control frames that are sent compressed.
#include "compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "wire_messages.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Copied(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Random(std::size_t bytes, int values, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random() % values);
  return made;
}

std::vector<std::byte> Compressed(std::span<const std::byte> control) {
  Compressor compressor;
  return Copied(compressor.Compress(control));
}

std::variant<std::vector<std::byte>, RequestError> Opened(std::span<const std::byte> control,
                                                          std::uint64_t limit = kControlLimit) {
  Decompressor decompressor;
  const auto opened = decompressor.Open(control, limit);
  if (const auto* error = std::get_if<RequestError>(&opened)) return *error;
  return Copied(std::get<0>(opened));
}

RequestError Refused(std::span<const std::byte> control, std::uint64_t limit = kControlLimit) {
  const auto opened = Opened(control, limit);
  EXPECT_TRUE(std::holds_alternative<RequestError>(opened));
  return std::holds_alternative<RequestError>(opened) ? std::get<RequestError>(opened)
                                                      : RequestError{};
}

// Compressed arbitrary content, in the form of a compressed control frame.
std::vector<std::byte> Forged(std::span<const std::byte> content) {
  std::vector<std::byte> made = Compressed(Random(1000, 2));
  made.resize(8 + ZSTD_compressBound(content.size()));
  made.resize(8 +
              ZSTD_compress(made.data() + 8, made.size() - 8, content.data(), content.size(), 1));
  return made;
}

TEST(Compression, GivesBackWhatWasCompressed) {
  Compressor compressor;
  Decompressor decompressor;
  for (const std::size_t bytes : {kMinCompressedBytes, std::size_t{3000}, kMaxCompressedBytes}) {
    for (const int values : {2, 30, 256}) {
      const std::vector<std::byte> control = Random(bytes, values);
      const std::vector<std::byte> sent = Copied(compressor.Compress(control));
      EXPECT_EQ(sent == control, values == 256);  // random bytes do not shrink
      EXPECT_LE(sent.size(), control.size());
      const auto opened = decompressor.Open(sent, kControlLimit);
      ASSERT_TRUE(std::holds_alternative<std::span<const std::byte>>(opened));
      EXPECT_TRUE(std::ranges::equal(std::get<0>(opened), control));
    }
  }
}

TEST(Compression, LeavesShortAndVeryLongFramesAlone) {
  for (const std::size_t bytes : {kMinCompressedBytes - 1, kMaxCompressedBytes + 1}) {
    const std::vector<std::byte> control = Random(bytes, 2);
    EXPECT_EQ(Compressed(control), control);
  }
  const std::vector<std::byte> zeros(100'000);
  EXPECT_EQ(Compressed(zeros), zeros);
  EXPECT_EQ(Compressed({}), std::vector<std::byte>());
}

TEST(Compression, OpensWhatHasZerosBehindIt) {
  const std::vector<std::byte> control = Random(3000, 3);
  std::vector<std::byte> sent = Compressed(control);
  sent.resize(sent.size() + 48);
  EXPECT_EQ(std::get<0>(Opened(sent)), control);
}

TEST(Compression, OpensWhatIsNotCompressedAsItIs) {
  for (const std::size_t bytes : {0, 3, 7, 8, 1000}) {
    const std::vector<std::byte> control = Random(bytes, 256);
    EXPECT_EQ(std::get<0>(Opened(control)), control);
  }
}

TEST(Compression, RefusesWhatIsBeyondItsLimits) {
  const RequestError over = Refused(Compressed(Random(3000, 3)), 2999);
  EXPECT_EQ(over.code, ErrorCode::kTooLarge);
  EXPECT_EQ(over.text, "the control frame has 3000 bytes, at most 2999");
  // Some KiB that would expand to one MiB, or to many.
  for (const std::size_t bytes : {kMaxCompressedBytes, std::size_t{60} << 20}) {
    const RequestError bomb = Refused(Forged(std::vector<std::byte>(bytes)));
    EXPECT_EQ(bomb.code, ErrorCode::kBadRequest);
    EXPECT_THAT(bomb.text, HasSubstr("16 times those that came"));
  }
  const RequestError large = Refused(Forged(Random(kMaxCompressedBytes + 1, 3)));
  EXPECT_THAT(large.text, HasSubstr("a control frame of 1048577 bytes came compressed"));
}

TEST(Compression, RefusesDamage) {
  const std::vector<std::byte> control = Random(3000, 3);
  const std::vector<std::byte> sent = Compressed(control);
  for (std::size_t bytes = 8; bytes < sent.size(); ++bytes) {
    EXPECT_FALSE(Refused(std::span(sent).first(bytes)).text.empty());
  }
  // A compressed frame that does not state its size.
  std::vector<std::byte> streamed = Compressed(control);
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  streamed.resize(8 + ZSTD_compressBound(control.size()));
  streamed.resize(8 + ZSTD_compress2(context, streamed.data() + 8, streamed.size() - 8,
                                     control.data(), control.size()));
  ZSTD_freeCCtx(context);
  EXPECT_THAT(Refused(streamed).text, HasSubstr("does not say what size it has"));
  // Flipped bits give an error or other bytes, but never more bytes than stated.
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> flipped = sent;
    flipped[8 + random() % (sent.size() - 8)] ^= std::byte{1} << (random() % 8);
    const auto opened = Opened(flipped);
    if (const auto* bytes = std::get_if<0>(&opened)) {
      EXPECT_LE(bytes->size(), kMaxCompression * flipped.size());
    }
  }
}

TEST(Compression, IsNoFrameOfAnotherVersion) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::vector<std::byte> sent = Compressed(Random(400, 3, seed));
    ASSERT_FALSE(VersionProblem(sent));
  }
}

// Puts tasks of 4,000 bytes each, which are too long to be inline without compression.
Put TasksToPut(std::size_t count) {
  Put put;
  for (std::size_t i = 0; i < count; ++i) {
    Tuple& tuple = put.tuples.emplace_back();
    tuple.key = Key{"task", static_cast<std::int64_t>(i)};
    const std::vector<std::byte> bytes = Random(4000, 4, i);
    tuple.payload = Payload::Copy({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return put;
}

TEST(Compression, TakesInPayloadsThatItMayShorten) {
  Encoder encoder;
  const Request sent{3, TasksToPut(10)};
  encoder.Begin(7, {.compressed_limit = kBatchControlBytes});
  encoder.Add(sent);
  const Frames frames = Finish(encoder);
  EXPECT_TRUE(frames.payloads.empty());
  const std::vector<std::byte> compressed = Compressed(frames.control);
  EXPECT_LT(compressed.size(), frames.control.size() / 2);
  const auto opened = Opened(compressed);
  const auto decoded = DecodeToBroker(std::get<0>(opened), {}, kControlLimit);
  ASSERT_TRUE(std::holds_alternative<ToBroker>(decoded));
  const auto& message = std::get<ToBroker>(decoded).messages.at(0);
  Same(std::get<Request>(message).body, sent.body);
}

TEST(Compression, KeepsControlFramesWithinTheReceiversLimit) {
  for (const std::size_t limit : {1, 3000, 5000, 9000, 20'000, 40'000}) {
    Encoder encoder;
    const Put put = TasksToPut(10);
    encoder.Begin(7, {.compressed_limit = limit});
    encoder.Add(Request{3, put});
    const Frames frames = Finish(encoder);
    EXPECT_LE(frames.control.size(), std::max(limit, 300 + ControlBytesBound(RequestBody(put))));
    EXPECT_GE(frames.payloads.size(), 1u);
    EXPECT_EQ(frames.payloads.size() < 10, limit >= 9000) << limit;
    EXPECT_TRUE(std::holds_alternative<ToBroker>(ToBrokerOf(frames)));
  }
}

}  // namespace
}  // namespace tuplespace
