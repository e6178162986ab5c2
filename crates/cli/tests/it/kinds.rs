//! Channels of other kinds than publish/subscribe, as the program shows and refuses them.

use crate::support::Root;
use hythe::request::{ClientOptions, ServerOptions};
use hythe::{ChannelType, Node, Pool, PoolOptions, PublisherOptions, WireOptions};

fn node(root: &Root) -> Node {
    root.ok(&["pool", "create", "--size", "16M", "--pool", "kinds"]);
    let pool = Pool::open(&PoolOptions::new("kinds").root(&root.pools())).expect("just made");
    Node::join(&pool, "tester").expect("joins")
}

#[test]
fn wire_region_is_named_with_who_holds_its_slots() {
    let Some(root) = Root::on_shared_memory("the wire region") else {
        return;
    };
    let node = node(&root);
    let options = WireOptions {
        slots: 3,
        ..WireOptions::default()
    };
    let region = node.wire_region(&options).expect("added");
    let _held = node.lease_in(region, 1000).expect("free");
    let shown = root.json(&["pool", "show", "kinds"]);
    let wire = &shown["regions"][1];
    assert_eq!(wire["kind"], "wire");
    assert_eq!(wire["name"], "wire");
    let class = &wire["classes"][0];
    assert_eq!((&class["slots"], &class["held"]), (&3.into(), &1.into()));
    let text = root.ok(&["pool", "show", "kinds"]);
    assert!(text.contains("1 wire"), "{text}");
    let who = root.ok(&["who", "--pool", "kinds"]);
    assert!(who.contains("tester"), "{who}");
}

#[test]
fn list_shows_what_each_channel_is_for() {
    let root = Root::new();
    let node = node(&root);
    let _server = node
        .server("sums", &ServerOptions::default().depth(8))
        .expect("opens");
    let mut client = node
        .client("sums", &ClientOptions::default())
        .expect("opens");
    let lease = client.lease(1).expect("free");
    client.request(lease, 1).expect("a server with room");
    let _listener = node.listener("alarm").expect("opens");
    let carries = ChannelType {
        name: "pose".to_owned(),
        bytes: 24,
        align: 8,
        version: 2,
    };
    let _publisher = node
        .publisher("poses", &PublisherOptions::default().carries(carries))
        .expect("opens");
    let text = root.ok(&["list", "--pool", "kinds"]);
    for line in [
        "channel sums carries raw bytes (request/reply)",
        "channel alarm carries no payload (events)",
        "channel poses carries pose version 2 (24 bytes, aligned to 8) (publish/subscribe)",
    ] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
    let list = root.json(&["list", "--pool", "kinds"]);
    let channels = list["channels"].as_array().expect("a list");
    let sums = channels.iter().find(|channel| channel["name"] == "sums");
    let sums = sums.expect("listed");
    assert_eq!(sums["kind"], "request/reply");
    let ports = sums["ports"].as_array().expect("a list");
    let server = ports.iter().find(|port| port["kind"] == "server");
    let server = server.expect("listed");
    assert_eq!(
        (&server["waiting"], &server["depth"]),
        (&1.into(), &8.into())
    );
}

#[test]
fn pub_and_sub_refuse_other_channels_and_name_both_sides() {
    let root = Root::new();
    let node = node(&root);
    let _server = node
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let _listener = node.listener("alarm").expect("opens");
    let other = format!("tester (pid {})", std::process::id());
    root.feed(&["pub", "sums", "--pool", "kinds"], b"x").failed(
        1,
        &[
            "`sums` is for request/reply",
            &other,
            "wants it for publish/subscribe",
        ],
    );
    root.run(&["sub", "alarm", "--pool", "kinds", "--timeout", "0.1"])
        .failed(1, &["`alarm` is for events", &other, "hythe sub"]);
}
