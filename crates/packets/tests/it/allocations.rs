//! Nothing is allocated after `new`, losses and repetitions included.

use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Arrival, Checksum, Receiver, Sender, Settings, Window,
};

const BYTES: u32 = 5_000;

#[test]
fn nothing_is_allocated_after_the_start() {
    let settings = Settings {
        session: 1,
        flow: 1,
        mtu_bytes: 1_500,
        window: Window {
            messages: 64,
            bytes: 1 << 20,
        },
        message_bytes_max: BYTES,
        unreachable_ns: u64::MAX / 4,
        initial_rtt_ns: 1_000_000,
        burst_bytes: 0,
        buffer_bytes: u32::MAX,
    };
    let mut sender = Sender::new(settings).expect("settings");
    let mut receiver = Receiver::new(settings).expect("settings");
    let payload = [3; BYTES as usize];
    let mut packets = 0_u64;
    let counted = allocation_counter::measure(|| {
        for round in 1..20_000_u64 {
            let now_ns = round * 1_000_000;
            sender.push(now_ns, BYTES, 0);
            sender.expire(now_ns).expect("no fault");
            while let Some(packet) = sender.transmit(now_ns) {
                packets += 1;
                let part = Checksum::of(&payload[packet.range()]);
                let header = packet.seal(part);
                // A loss now and then.
                if packets.is_multiple_of(19) {
                    continue;
                }
                let arrival = receiver.receive(now_ns, &header, part);
                if let Arrival::Place(place) = arrival.expect("no fault") {
                    place.done();
                }
            }
            while let Some(message) = receiver.next_message() {
                receiver.accept(now_ns, message.number + 1);
            }
            let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
            if let Some(bytes) = receiver.acknowledge(now_ns, &mut out) {
                let read = sender.acknowledged(now_ns + 500_000, &out[..bytes]);
                read.expect("no fault");
            }
        }
    });
    assert_eq!(counted.count_total, 0);
    assert!(sender.state().repeated > 1_000, "{:?}", sender.state());
    assert!(sender.accepted() > 10_000, "{}", sender.accepted());
}
