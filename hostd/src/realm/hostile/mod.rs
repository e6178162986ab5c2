//! Whatever other hosts may give as the list of a realm, or as a certificate: for the bounded test,
//! and for the fuzz target `host_documents`, which includes this file. The realm is a real one, of
//! the hosts `a` and `c`, whose keys are gone; `b` was put out.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::document::{RealmDocument, SignedDocument};
use super::verification::{common_name, is_signed_by, realm_of_issuer};

const REALM: &str = "edd216267b29a3ed";
const AUTHORITY: &str = include_str!("authority.pem");
const HOST: &str = include_str!("host.pem");
const DOCUMENT: &str = include_str!("realm.json");

/// Reads `bytes` as each of them. No panic; what the authority did not sign is not believed.
pub(crate) fn play(bytes: &[u8]) {
    let (authority, host) = (certificate(AUTHORITY), certificate(HOST));
    let real = real_document(&authority);
    if let Ok(signed) = serde_json::from_slice::<SignedDocument>(bytes)
        && let Ok(document) = signed.verify(REALM, &authority)
    {
        assert_eq!(document, real);
    }
    // What an authority that lies could sign.
    if let Ok(document) = serde_json::from_slice::<RealmDocument>(bytes) {
        let _ = document.has_revoked(&host);
        let free = document.free_number();
        let numbers = document.numbers();
        assert!(numbers.values().all(|taken| Some(*taken) != free));
        for name in document.names() {
            assert!(document.host(&name).is_some());
        }
    }
    let mut claimed = vec![CertificateDer::from(bytes)];
    claimed.extend(CertificateDer::from_pem_slice(bytes).ok());
    for claimed in &claimed {
        let name = common_name(claimed);
        let _ = (realm_of_issuer(claimed), real.has_revoked(claimed));
        if is_signed_by(claimed, &authority).is_ok() {
            let name = name.expect("all that it signed have one");
            assert!(["a", "b", "c"].contains(&name.as_str()), "{name}");
        }
        // It is the authority of some other realm, and signed none of this.
        if *claimed != authority {
            let _ = is_signed_by(&host, claimed);
            let _ = signed_document().verify(REALM, claimed);
        }
    }
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

fn signed_document() -> SignedDocument {
    serde_json::from_str(DOCUMENT).expect("it is there")
}

fn real_document(authority: &CertificateDer<'_>) -> RealmDocument {
    let document = signed_document().verify(REALM, authority);
    document.expect("the authority signed it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVOKED: &str = include_str!("revoked.pem");

    /// Of these `play` starts: what it tries is what hosts take.
    #[test]
    fn realm_of_the_test_is_one() {
        let authority = certificate(AUTHORITY);
        let document = real_document(&authority);
        for (pem, name, is_revoked) in [(HOST, "c", false), (REVOKED, "b", true)] {
            let host = certificate(pem);
            assert_eq!(common_name(&host).expect("a name").as_str(), name);
            is_signed_by(&host, &authority).expect("signed");
            assert_eq!(document.has_revoked(&host).expect("read"), is_revoked);
            assert_eq!(realm_of_issuer(&host).as_deref(), Some(REALM));
        }
    }

    /// As the fuzz target, bounded.
    #[test]
    fn what_the_authority_did_not_sign_is_not_believed() {
        let document = real_document(&certificate(AUTHORITY));
        let originals = [
            DOCUMENT.as_bytes().to_vec(),
            serde_json::to_vec(&document).expect("written"),
            certificate(AUTHORITY).to_vec(),
            certificate(HOST).to_vec(),
            certificate(REVOKED).to_vec(),
            HOST.as_bytes().to_vec(),
        ];
        hythe_testing::play(&originals, 3_000, |bytes| play(&bytes));
    }
}
