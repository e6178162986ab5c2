//! A realm is begun, hosts are added and removed, and what was not signed is refused.

use std::time::{Duration, Instant};

use hythe_cluster::Carrier;
use hythe_hostd::HostdError;
use hythe_hostd::hosts_directory::HostsDirectory;
use hythe_hostd::realm::{
    Authority, DOCUMENT_BYTES_MAX, HostKey, Identity, LiveRealm, NewHost, common_name, file,
    realm_of_issuer,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::hosts::{Host, name, new_host};

fn begin(host: &str) -> Host {
    Host::first(host)
}

fn add(directory: &HostsDirectory, host: &str) -> CertificateDer<'static> {
    let key = HostKey::generate().expect("a key");
    let request = key.signing_request(&name(host)).expect("a request");
    let mut authority = Authority::open(directory).expect("opened");
    let pem = authority.add(&request, new_host(host)).expect("signed");
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

#[test]
fn certificates_hold_when_the_clock_says_1970_and_in_9999() {
    let begun = begin("alpha");
    let leaf = add(&begun.directory, "beta");
    let identity = Identity::load(&begun.directory).expect("loaded");
    let anchor = anchor_from_trusted_cert(identity.authority()).expect("an anchor");
    let leaf = EndEntityCert::try_from(&leaf).expect("parsed");
    // 9999-12-30.
    for seconds in [0, 1, 253_402_128_000] {
        for usage in [KeyUsage::server_auth(), KeyUsage::client_auth()] {
            leaf.verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                std::slice::from_ref(&anchor),
                &[],
                UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
                usage,
                None,
                None,
            )
            .unwrap_or_else(|error| panic!("{seconds} s: {error}"));
        }
    }
}

#[test]
fn certificate_names_its_host_and_realm() {
    let begun = begin("alpha");
    let leaf = add(&begun.directory, "beta.lan");
    let identity = Identity::load(&begun.directory).expect("loaded");
    assert_eq!(identity.name(), &name("alpha"));
    assert_eq!(common_name(&leaf).expect("one name"), name("beta.lan"));
    assert_eq!(realm_of_issuer(&leaf).as_deref(), Some(identity.realm()));
}

#[test]
fn authority_signs_the_key_and_not_what_a_request_asks_for() {
    let begun = begin("alpha");
    let key = HostKey::generate().expect("a key");
    // It asks for the name of another host.
    let request = key.signing_request(&name("alpha")).expect("a request");
    let mut authority = Authority::open(&begun.directory).expect("opened");
    let pem = authority.add(&request, new_host("beta")).expect("signed");
    let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    assert_eq!(common_name(&leaf).expect("one name"), name("beta"));

    // A letter in the middle of it.
    let mut broken = request.clone().into_bytes();
    broken[120] = if broken[120] == b'A' { b'B' } else { b'A' };
    let broken = String::from_utf8(broken).expect("text");
    let error = authority
        .add(&broken, new_host("gamma"))
        .expect_err("refused");
    assert!(
        matches!(error, HostdError::BadCertificate { .. }),
        "{error}"
    );
}

#[test]
fn name_is_of_one_host_until_it_is_removed() {
    let begun = begin("alpha");
    let first = add(&begun.directory, "beta");
    let mut authority = Authority::open(&begun.directory).expect("opened");
    for taken in ["alpha", "beta"] {
        let error = authority.check_free(&name(taken)).expect_err("taken");
        assert!(error.to_string().contains(taken), "{error}");
    }
    let error = authority.remove(&name("gamma")).expect_err("unknown");
    assert!(error.to_string().contains("alpha, beta"), "{error}");
    authority.remove(&name("beta")).expect("removed");
    drop(authority);

    let second = add(&begun.directory, "beta");
    let identity = Identity::load(&begun.directory).expect("loaded");
    let has_revoked = |leaf| identity.document().has_revoked(leaf).expect("read");
    assert!(has_revoked(&first));
    assert!(!has_revoked(&second));
    assert!(!has_revoked(identity.certificate()));
}

#[test]
fn realm_begins_once_and_its_key_stays() {
    let begun = begin("alpha");
    let error = Authority::begin(&begun.directory, new_host("beta")).expect_err("refused");
    assert!(matches!(error, HostdError::HasRealm { .. }), "{error}");
    assert!(error.to_string().contains("alpha"), "{error}");

    begun
        .directory
        .remove(file::AUTHORITY_KEY)
        .expect("removed");
    let error = Authority::open(&begun.directory).expect_err("refused");
    assert!(matches!(error, HostdError::NotAuthority { .. }), "{error}");
}

#[test]
fn only_newer_documents_that_the_authority_signed_are_taken() {
    let begun = begin("alpha");
    let old = Identity::load(&begun.directory).expect("loaded");
    let stranger = begin("alpha");
    add(&begun.directory, "beta");
    let newer = Identity::load(&begun.directory).expect("loaded");

    let realm = LiveRealm::open(begun.directory).expect("opened");
    assert!(!realm.offer(old.signed_document()).expect("older"));
    assert!(!realm.offer(newer.signed_document()).expect("the same"));

    add(&stranger.directory, "beta");
    add(&stranger.directory, "gamma");
    let foreign = Identity::load(&stranger.directory).expect("loaded");
    let error = realm.offer(foreign.signed_document()).expect_err("refused");
    assert!(error.to_string().contains("did not sign"), "{error}");

    // What another host would offer: the files here are put back.
    let directory = HostsDirectory::open(realm.directory().path()).expect("opened");
    let before = directory
        .read(file::DOCUMENT)
        .expect("read")
        .expect("there");
    add(&directory, "gamma");
    let newest = Identity::load(&directory).expect("loaded");
    directory.write(file::DOCUMENT, &before).expect("written");
    let text = serde_json::to_string(newest.signed_document()).expect("written");
    let forged = serde_json::from_str(&text.replace("gamma", "delta")).expect("read");
    let error = realm.offer(&forged).expect_err("refused");
    assert!(error.to_string().contains("did not sign"), "{error}");
    assert_eq!(realm.identity().document().names().len(), 2);

    assert!(realm.offer(newest.signed_document()).expect("newer"));
    assert_eq!(realm.identity().document().names().len(), 3);
    let kept = Identity::load(&directory).expect("loaded");
    assert_eq!(kept.document().number, newest.document().number);
}

#[test]
fn what_another_process_wrote_is_taken_when_asked() {
    let begun = begin("alpha");
    let realm = LiveRealm::open(begun.directory).expect("opened");
    assert!(!realm.reload().expect("nothing new"));
    let directory = HostsDirectory::open(realm.directory().path()).expect("opened");
    add(&directory, "beta");
    let number = realm.identity().document().number;
    assert!(realm.reload().expect("reloaded"));
    assert_eq!(realm.wait_change(number, Duration::ZERO), number + 1);
}

#[test]
fn files_that_do_not_belong_together_are_named_with_the_remedy() {
    let stranger = begin("beta");
    for (replaced, blamed, why) in [
        (file::KEY, file::KEY, "not the key of host.pem"),
        (file::CERTIFICATE, file::CERTIFICATE, "did not sign it"),
        (
            file::AUTHORITY_CERTIFICATE,
            file::CERTIFICATE,
            "did not sign it",
        ),
    ] {
        let first = begin("alpha");
        let added = first.add("beta");
        for (host, remedy) in [
            (&first, "it has the realm's key"),
            (&added, "`hythe host remove beta`"),
        ] {
            let other = stranger.directory.read(replaced).expect("read");
            let written = host.directory.write(replaced, &other.expect("there"));
            written.expect("written");
            let error = Identity::load(&host.directory).expect_err("refused");
            let text = error.to_string();
            let path = host.directory.path_of(blamed);
            for part in [path.to_str().expect("text"), why, "backup", remedy] {
                assert!(text.contains(part), "{replaced}: {part}: {text}");
            }
        }
    }
}

/// A host whose address has so many letters.
fn add_long(directory: &HostsDirectory, host: &str, bytes: usize) -> Result<String, HostdError> {
    let key = HostKey::generate().expect("a key");
    let request = key.signing_request(&name(host)).expect("a request");
    let mut authority = Authority::open(directory).expect("opened");
    let addresses = vec!["a".repeat(bytes)];
    authority.add(
        &request,
        NewHost {
            addresses,
            ..new_host(host)
        },
    )
}

/// What the authority signs, every host takes; what would be longer is not signed.
#[test]
fn longest_list_of_hosts_is_exchanged_and_a_longer_one_refused() {
    let alpha = begin("alpha");
    let beta = alpha.add("beta");
    let (to, there) = beta.carrier();
    // With the few spaces of a file for people.
    let length = || {
        let kept = alpha.directory.read(file::DOCUMENT).expect("read");
        kept.expect("there").len()
    };
    let number = alpha.realm().identity().document().number;
    let error = add_long(&alpha.directory, "gamma", DOCUMENT_BYTES_MAX).expect_err("too long");
    for part in [&*DOCUMENT_BYTES_MAX.to_string(), "hythe host remove"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let kept = alpha.realm().identity();
    assert_eq!(kept.document().number, number, "nothing has changed");
    // Its name, its grants and the marks around them take the rest.
    let room = DOCUMENT_BYTES_MAX - length();
    add_long(&alpha.directory, "gamma", room - 300).expect("there is room");
    assert!(DOCUMENT_BYTES_MAX - length() < 300, "{}", length());
    let (from, _) = alpha.carrier();
    let since = Instant::now();
    // On a busy machine the side that is called may give up.
    while there.identity().document().number != number + 1 {
        assert!(since.elapsed() < Duration::from_secs(120), "it never came");
        let _ = from.connect(&name("beta"), &[to.address()], Duration::from_secs(60));
    }
}
