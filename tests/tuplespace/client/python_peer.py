"""A handler in another language, written only from PROTOCOL.md and schema/wire.fbs.

python_peer.py ENDPOINT FOLDER COUNT

FOLDER has the output of `flatc --python` for wire.fbs. Takes COUNT tasks ("square", n), whose payload is n in decimal
digits, and completes each with the tuple ("squared", n): the square in digits, followed by as many x as the square says
if n is above 100 (so that the payload needs a frame). Exits with 77 if pyzmq or flatbuffers is not installed.
"""

import os
import struct
import sys

try:
    import flatbuffers
    import zmq
except ImportError as missing:
    print(missing)
    sys.exit(77)

endpoint, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder)

from tuplespace.wire import (  # noqa: E402
    Body, Bye, Complete, Done, Envelope, Get, Grants, Hello, Lease, Message, Op, Pattern, Tuple,
    Welcome)

VERSION = 4
INLINE_BYTES = 512
PART_BYTES = 1000  # far less than the limit, so that messages have several parts


def align(offset, step):
    return -(-offset // step) * step


def pack(control, payloads, number):
    """The parts of a message."""
    body = control
    if payloads:
        body += bytes(align(32 + len(body), 8) - 32 - len(body))
        body += struct.pack("<%dQ" % len(payloads), *map(len, payloads))
    for payload in payloads:
        body += bytes(align(32 + len(body), 64) - 32 - len(body)) + payload
    root = struct.unpack_from("<I", control)[0] + 32
    head = struct.pack("<I4sIIQQ", root, b"ATSP", len(control), len(payloads), number,
                       32 + len(body))
    packed = head + body
    return [packed[:PART_BYTES]] + [
        struct.pack("<I4sQQ", 0, b"ATSC", number, at) + packed[at:at + PART_BYTES]
        for at in range(PART_BYTES, len(packed), PART_BYTES)]


def unpack(packed):
    """The control frame and the payload frames of an unpacked message."""
    _, mark, control_bytes, payloads, _, size = struct.unpack_from("<I4sIIQQ", packed)
    assert mark == b"ATSP" and size == len(packed)
    control, frames = packed[32:32 + control_bytes], []
    end = align(32 + control_bytes, 8) + 8 * payloads
    for size in struct.unpack_from("<%dQ" % payloads, packed, end - 8 * payloads) if payloads else ():
        begin = align(end, 64)
        end = begin + size
        frames.append(packed[begin:end])
    return control, frames


def encode_key(*fields):
    out = b""
    for field in fields:
        if isinstance(field, int):
            out += b"\x01" + struct.pack(">Q", (field + 2**63) % 2**64)
        else:
            out += b"\x02" + field.encode().replace(b"\x00", b"\x00\xff") + b"\x00\x01"
    return out


def decode_key(data):
    fields, at = [], 0
    while at < len(data):
        if data[at] == 1:
            fields.append(struct.unpack_from(">Q", data, at + 1)[0] - 2**63)
            at += 9
        else:
            end = data.index(b"\x00\x01", at + 1)
            fields.append(data[at + 1:end].replace(b"\x00\xff", b"\x00").decode())
            at = end + 2
    return fields


def vector(table, name):
    """The bytes of a [ubyte] field."""
    return bytes(getattr(table, name)(i) for i in range(getattr(table, name + "Length")()))


class Peer:
    def __init__(self):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.ROUTING_ID, b"python-%d" % os.getpid())
        self.socket.setsockopt(zmq.RCVTIMEO, 60_000)
        self.socket.connect(endpoint)
        self.session = 0
        self.next_id = 1
        self.number = int.from_bytes(os.urandom(6), "little")

    def send(self, request_id, body_type, build, payloads=()):
        builder = flatbuffers.Builder(1024)
        body = build(builder)
        Message.MessageStart(builder)
        Message.MessageAddId(builder, request_id)
        Message.MessageAddBodyType(builder, body_type)
        Message.MessageAddBody(builder, body)
        message = Message.MessageEnd(builder)
        Envelope.EnvelopeStartMessagesVector(builder, 1)
        builder.PrependUOffsetTRelative(message)
        messages = builder.EndVector()
        Envelope.EnvelopeStart(builder)
        Envelope.EnvelopeAddVersion(builder, VERSION)
        Envelope.EnvelopeAddSession(builder, self.session)
        Envelope.EnvelopeAddMessages(builder, messages)
        builder.Finish(Envelope.EnvelopeEnd(builder), file_identifier=b"ATSP")
        self.number += 1
        for part in pack(bytes(builder.Output()), payloads, self.number):
            self.socket.send(part)

    def receive_packed(self):
        packed = self.socket.recv()
        size = struct.unpack_from("<Q", packed, 24)[0]
        while len(packed) < size:
            part = self.socket.recv()
            _, mark, number, offset = struct.unpack_from("<I4sQQ", part)
            assert mark == b"ATSC" and offset == len(packed) and number == struct.unpack_from("<Q", packed, 16)[0]
            packed += part[24:]
        return packed

    def receive(self, body_type, body_class):
        """Receives the next message of this type, and the payload frames of its envelope."""
        while True:
            control, payloads = unpack(self.receive_packed())
            assert control[4:8] == b"ATSP"
            envelope = Envelope.Envelope.GetRootAs(control, 0)
            assert envelope.Version() == VERSION
            for i in range(envelope.MessagesLength()):
                message = envelope.Messages(i)
                if message.BodyType() == body_type:
                    body = body_class()
                    body.Init(message.Body().Bytes, message.Body().Pos)
                    return body, payloads

    def join(self):
        def build(builder):
            name = builder.CreateString("a handler in Python")
            Hello.HelloStart(builder)
            Hello.HelloAddNonce(builder, 1)
            Hello.HelloAddName(builder, name)
            return Hello.HelloEnd(builder)

        self.send(0, Body.Body.Hello, build)
        welcome, _ = self.receive(Body.Body.Welcome, Welcome.Welcome)
        self.session = welcome.Session()

    def request(self, body_type, build, payloads=()):
        self.send(self.next_id, body_type, build, payloads)
        self.next_id += 1

    def get(self):
        """Takes one tuple ("square", any): its key, payload and fence."""
        def build(builder):
            fields = builder.CreateByteVector(
                bytes([Op.Op.Exact]) + encode_key("square") + bytes([Op.Op.Any]))
            Pattern.PatternStart(builder)
            Pattern.PatternAddFields(builder, fields)
            pattern = Pattern.PatternEnd(builder)
            Get.GetStart(builder)
            Get.GetAddPattern(builder, pattern)
            return Get.GetEnd(builder)

        self.request(Body.Body.Get, build)
        grants, payloads = self.receive(Body.Body.Grants, Grants.Grants)
        assert grants.GrantsLength() == 1
        grant = grants.Grants(0)
        payload = vector(grant, "Payload")
        if grant.Frame() != 0xFFFFFFFF:
            payload = payloads[grant.Frame()]
        return vector(grant, "Key"), payload, grant.Fence()

    def complete(self, key, fence, result_key, result):
        def build(builder):
            lease_key = builder.CreateByteVector(key)
            Lease.LeaseStart(builder)
            Lease.LeaseAddKey(builder, lease_key)
            Lease.LeaseAddFence(builder, fence)
            lease = Lease.LeaseEnd(builder)
            tuple_key = builder.CreateByteVector(result_key)
            inline = builder.CreateByteVector(result) if len(result) <= INLINE_BYTES else None
            Tuple.TupleStart(builder)
            Tuple.TupleAddKey(builder, tuple_key)
            if inline is None:
                Tuple.TupleAddFrame(builder, 0)
            else:
                Tuple.TupleAddPayload(builder, inline)
            one = Tuple.TupleEnd(builder)
            Complete.CompleteStartResultsVector(builder, 1)
            builder.PrependUOffsetTRelative(one)
            results = builder.EndVector()
            Complete.CompleteStart(builder)
            Complete.CompleteAddLease(builder, lease)
            Complete.CompleteAddResults(builder, results)
            return Complete.CompleteEnd(builder)

        self.request(Body.Body.Complete, build, [result] if len(result) > INLINE_BYTES else [])
        done, _ = self.receive(Body.Body.Done, Done.Done)
        assert [done.Requests(i) for i in range(done.RequestsLength())] == [self.next_id - 1]


peer = Peer()
peer.join()
for _ in range(count):
    task_key, task_payload, task_fence = peer.get()
    kind, number = decode_key(task_key)
    assert kind == "square" and int(task_payload) == number
    answer = str(number * number)
    if number > 100:
        answer += "x" * (number * number)
    peer.complete(task_key, task_fence, encode_key("squared", number), answer.encode())
peer.send(0, Body.Body.Bye, lambda b: (Bye.ByeStart(b), Bye.ByeEnd(b))[1])
peer.socket.close(linger=1000)
