#include "tuplespace/messages.h"

namespace tuplespace {

RequestBody::RequestBody() = default;
RequestBody::RequestBody(const RequestBody& other) = default;
RequestBody::RequestBody(RequestBody&& other) noexcept = default;
RequestBody& RequestBody::operator=(const RequestBody& other) = default;
RequestBody& RequestBody::operator=(RequestBody&& other) noexcept = default;
RequestBody::~RequestBody() = default;

ReplyBody::ReplyBody() = default;
ReplyBody::ReplyBody(const ReplyBody& other) = default;
ReplyBody::ReplyBody(ReplyBody&& other) noexcept = default;
ReplyBody& ReplyBody::operator=(const ReplyBody& other) = default;
ReplyBody& ReplyBody::operator=(ReplyBody&& other) noexcept = default;
ReplyBody::~ReplyBody() = default;

}  // namespace tuplespace
