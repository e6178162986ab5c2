/*
 * Messages over iceoryx (the C++ library), as its users send them: a chunk is loaned, written in
 * place and published, and the other side reads it where it lies.
 *
 * The peer "iceoryx" of `hythe bench ipc`, which compiles it and starts RouDi and both sides. The
 * near side measures; the far one answers until a chunk of one byte comes. `untouched` chunks are
 * neither written nor read: a received chunk cannot be published again.
 *
 * Usage: iceoryx_peer near|far untouched|filled|single SIZE COUNT SECONDS CPU
 */
#include <cinttypes>

#include "iceoryx_hoofs/log/logmanager.hpp"
#include "iceoryx_posh/mepoo/chunk_header.hpp"
#include "iceoryx_posh/popo/untyped_publisher.hpp"
#include "iceoryx_posh/popo/untyped_subscriber.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"

#include "exchange.h"

namespace
{
iox::popo::UntypedPublisher *publisher;
iox::popo::UntypedSubscriber *subscriber;
uint32_t bytes;
bool is_touched;

void put_bytes(uint32_t length, uint64_t number)
{
    for (;;) {
        auto loaned = publisher->loan(length);
        if (loaned.has_error()) {
            continue;
        }
        if (is_touched) {
            fill(static_cast<unsigned char *>(loaned.value()), length, number);
        }
        publisher->publish(loaned.value());
        return;
    }
}

void put(uint64_t number)
{
    put_bytes(bytes, number);
}

/* False: the other side has finished. */
bool take(uint64_t number)
{
    for (;;) {
        auto taken = subscriber->take();
        if (taken.has_error()) {
            continue;
        }
        const void *payload = taken.value();
        const uint32_t length =
            iox::mepoo::ChunkHeader::fromUserPayload(payload)->userPayloadSize();
        if (length == bytes && is_touched) {
            check(static_cast<const unsigned char *>(payload), length, number);
        }
        subscriber->release(payload);
        return length == bytes;
    }
}

void wait_for(uint64_t number)
{
    if (!take(number)) {
        fail("the other side has finished");
    }
}
} // namespace

static void there_and_back(uint64_t number)
{
    put(number);
    wait_for(number);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fail("usage: iceoryx_peer near|far untouched|filled|single SIZE COUNT SECONDS CPU");
    }
    const bool is_near = strcmp(argv[1], "near") == 0;
    const bool is_single = strcmp(argv[2], "single") == 0;
    const plan plan = {strtoul(argv[3], nullptr, 10), strtoul(argv[4], nullptr, 10),
                       strtod(argv[5], nullptr)};
    bytes = static_cast<uint32_t>(plan.size);
    is_touched = strcmp(argv[2], "untouched") != 0;

    const auto runtime_name =
        is_near ? iox::RuntimeName_t("hythe-bench-near") : iox::RuntimeName_t("hythe-bench-far");
    const iox::capro::IdString_t there("there"), back("back");

    iox::log::LogManager::GetLogManager().SetDefaultLogLevel(
        iox::log::LogLevel::kError, iox::log::LogLevelOutput::kHideLogLevel);
    iox::runtime::PoshRuntime::initRuntime(runtime_name);
    iox::popo::PublisherOptions publishes;
    iox::popo::SubscriberOptions subscribes;
    publishes.subscriberTooSlowPolicy = iox::popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER;
    subscribes.queueFullPolicy = iox::popo::QueueFullPolicy::BLOCK_PRODUCER;
    iox::popo::UntypedPublisher to({"hythe", "bench", is_near ? there : back}, publishes);
    iox::popo::UntypedSubscriber from({"hythe", "bench", is_near ? back : there}, subscribes);
    publisher = &to;
    subscriber = &from;
    while (!to.hasSubscribers() || from.getSubscriptionState() != iox::SubscribeState::SUBSCRIBED) {
    }
    /* Only now: the threads of the library run anywhere. */
    pin(atoi(argv[6]));
    if (is_near) {
        if (is_single) {
            measure_rate(&plan, put, wait_for);
        } else {
            measure(&plan, round_trip_ns);
        }
        put_bytes(1, 0);
        return 0;
    }
    if (is_single) {
        uint64_t number = 0;
        while (number < plan.count && take(number)) {
            number++;
        }
        put(number);
    }
    for (uint64_t number = 0; take(number); number++) {
        put(number);
    }
    return 0;
}
