//! The realm's list, and what a host that is taken in is sent, damaged in every way: nothing is
//! believed that the authority did not sign, and nothing of it is left.

use crate::hosts::{Host, name, new_host};
use hythe_hostd::hosts_directory::HostsDirectory;
use hythe_hostd::membership::{Bundle, install, join};
use hythe_hostd::realm::{Authority, Identity, RealmDocument, SignedDocument, file};

fn text(directory: &HostsDirectory, name: &str) -> String {
    let text = directory.read_text(name).expect("read");
    text.expect("it is there")
}

#[test]
fn list_that_the_authority_did_not_sign_is_refused() {
    let first = Host::first("a");
    let _ = first.add("b");
    first.remove("b");
    let _ = first.add("c");
    let identity = Identity::load(&first.directory).expect("an identity");
    let signed = text(&first.directory, file::DOCUMENT);
    let plain = serde_json::to_string(identity.document()).expect("written");
    let mut refused = 0;
    hythe_testing::play(&[signed.into_bytes()], 5_000, |bytes| {
        let Ok(signed) = serde_json::from_slice::<SignedDocument>(&bytes) else {
            return;
        };
        match signed.verify(identity.realm(), identity.authority()) {
            Ok(document) => assert_eq!(document, *identity.document()),
            Err(_) => refused += 1,
        }
    });
    assert!(refused > 0, "some can be read");
    // What an authority that lies could sign: read, and judged, without a panic.
    hythe_testing::play(&[plain.into_bytes()], 5_000, |bytes| {
        if let Ok(document) = serde_json::from_slice::<RealmDocument>(&bytes) {
            let _ = document.has_revoked(identity.authority());
        }
    });
}

#[test]
fn host_that_is_sent_a_damaged_identity_belongs_to_no_realm() {
    let first = Host::first("a");
    let folder = tempfile::tempdir().expect("a directory");
    let joining = HostsDirectory::open_or_create(&folder.path().join("hosts"));
    let joining = joining.expect("made");
    let asked = join(&joining, &name("b"), None, || unreachable!("no agent")).expect("a key");
    let mut authority = Authority::open(&first.directory).expect("opened");
    let certificate = authority
        .add(&asked.request, new_host("b"))
        .expect("signed");
    drop(authority);
    let bundle = Bundle {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        certificate,
        authority: text(&first.directory, file::AUTHORITY_CERTIFICATE),
        document: text(&first.directory, file::DOCUMENT),
    };
    let bytes = bundle.to_bytes().expect("written");
    let realm = Identity::load(&first.directory).expect("an identity");
    let realm = realm.realm().to_owned();
    let (mut taken, mut refused) = (0, 0);
    hythe_testing::play(&[bytes], 300, |bytes| match install(&joining, &bytes) {
        Ok(_) => {
            // What was damaged does not count: spaces, or what stands beside a certificate.
            let identity = Identity::load(&joining).expect("an identity");
            assert_eq!((identity.name(), identity.realm()), (&name("b"), &*realm));
            joining.remove(file::CERTIFICATE).expect("removed");
            taken += 1;
        }
        Err(_) => {
            assert!(Identity::load(&joining).is_err(), "nothing is left of it");
            refused += 1;
        }
    });
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}
