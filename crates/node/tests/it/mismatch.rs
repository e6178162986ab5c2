//! Ports that do not fit a channel are refused when they open, and the message names both sides.

use crate::support::Root;
use hythe_node::{
    ChannelType, ClientOptions, Node, NodeError, Pool, PoolError, PublisherOptions, ServerOptions,
    SubscriberOptions,
};

fn nodes(pool: &Pool) -> (Node, Node) {
    (
        Node::join(pool, "camera").expect("joins"),
        Node::join(pool, "viewer").expect("joins"),
    )
}

fn pose(version: u32) -> ChannelType {
    ChannelType {
        name: "pose".to_owned(),
        bytes: 24,
        align: 8,
        version,
    }
}

/// The message, which names both.
fn named(refused: Result<impl std::fmt::Debug, NodeError>) -> String {
    let refused = refused.expect_err("it does not fit");
    let is_mismatch = matches!(
        refused,
        NodeError::Pool(PoolError::TypeMismatch(_) | PoolError::KindMismatch(_))
    );
    assert!(is_mismatch, "{refused:?}");
    let message = refused.to_string();
    let pid = std::process::id();
    assert!(
        message.contains(&format!("camera (pid {pid})")),
        "{message}"
    );
    assert!(
        message.contains(&format!("viewer (pid {pid})")),
        "{message}"
    );
    message
}

#[test]
fn port_of_another_kind_is_refused() {
    let root = Root::new();
    let pool = root.pool();
    let (camera, viewer) = nodes(&pool);
    let _publisher = camera
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let _server = camera
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let _listener = camera.listener("alarm").expect("opens");
    let message = named(viewer.client("data", &ClientOptions::default()));
    assert!(message.contains("is for publish/subscribe"), "{message}");
    assert!(message.contains("wants it for request/reply"), "{message}");
    let message = named(viewer.subscriber("sums", &SubscriberOptions::default()));
    assert!(message.contains("is for request/reply"), "{message}");
    let message = named(viewer.publisher("alarm", &PublisherOptions::default()));
    assert!(message.contains("is for events"), "{message}");
    named(viewer.notifier("data"));
    named(viewer.listener("sums"));
    named(viewer.server("alarm", &ServerOptions::default()));
    assert_eq!(pool.snapshot().ports.len(), 3, "a refused port is left");
    // Those that fit still do.
    assert!(viewer.client("sums", &ClientOptions::default()).is_ok());
    assert!(viewer.notifier("alarm").is_ok());
}

#[test]
fn another_type_size_or_version_is_refused() {
    let root = Root::new();
    let pool = root.pool();
    let (camera, viewer) = nodes(&pool);
    let options = PublisherOptions::default().carries(pose(1));
    let _publisher = camera.publisher("data", &options).expect("opens");
    let _server = camera
        .server("sums", &ServerOptions::default().carries(pose(1)))
        .expect("opens");
    for wanted in [
        pose(2),
        ChannelType {
            bytes: 16,
            ..pose(1)
        },
        ChannelType {
            align: 4,
            ..pose(1)
        },
        ChannelType {
            name: "place".to_owned(),
            ..pose(1)
        },
        ChannelType::default(),
    ] {
        let options = SubscriberOptions::default().carries(wanted.clone());
        let message = named(viewer.subscriber("data", &options));
        assert!(message.contains(&pose(1).to_string()), "{message}");
        assert!(message.contains(&format!("wants {wanted}")), "{message}");
        named(viewer.client("sums", &ClientOptions::default().carries(wanted)));
    }
    let same = SubscriberOptions::default().carries(pose(1));
    assert!(viewer.subscriber("data", &same).is_ok());
    let any = SubscriberOptions::default();
    assert!(
        viewer.subscriber("data", &any).is_ok(),
        "raw bytes join anything"
    );
    assert!(viewer.client("sums", &ClientOptions::default()).is_ok());
}

#[test]
fn type_name_that_would_be_cut_is_refused() {
    let root = Root::new();
    let pool = root.pool();
    let (camera, _) = nodes(&pool);
    let long = ChannelType {
        name: "x".repeat(65),
        ..pose(1)
    };
    let refused = camera.publisher("data", &PublisherOptions::default().carries(long));
    let refused = refused.expect_err("too long").to_string();
    assert!(refused.contains("longer than 64 bytes"), "{refused}");
    assert_eq!(pool.snapshot().channels.len(), 0);
}
