//! A realm's certificates, made for a test.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use tempfile::TempDir;

/// An authority, and the folder with what it has signed.
pub(crate) struct Realm {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Realm {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = named("hythe test realm");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let file = folder.path().join("authority.pem");
        std::fs::write(file, authority.pem()).expect("written");
        Self { authority, folder }
    }

    /// Signs a host's certificate.
    pub(crate) fn add(&self, host: &str) {
        let mut params = named(host);
        params.subject_alt_names = vec![rcgen::SanType::DnsName(host.try_into().expect("a name"))];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        let write = |kind: &str, text: String| {
            std::fs::write(self.path().join(format!("{host}.{kind}")), text).expect("written");
        };
        write("pem", certificate.pem());
        write("key", key.serialize_pem());
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
