//! Certificates for a test, made when it runs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use tempfile::TempDir;

/// An authority of its own, and the files of what it has signed.
pub struct Pki {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

// === impl Pki ===

impl Pki {
    /// A new authority that nobody else trusts.
    pub fn new() -> Pki {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut parameters = CertificateParams::default();
        // Two authorities of one name would be taken for one with another key.
        let name = folder.path().display().to_string();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(parameters, key).expect("an authority");
        let pki = Pki { folder, authority };
        std::fs::write(pki.ca(), pki.authority.pem()).expect("a file for the authority");
        pki
    }

    /// The file of the authority's own certificate.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// Signs a certificate for these names, addresses and URIs; the files of the certificate and of its key.
    pub fn issue(&self, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        let (uris, names): (Vec<String>, Vec<String>) =
            names.iter().map(|&name| name.to_owned()).partition(|name| name.contains("://"));
        let mut parameters = CertificateParams::new(names).expect("names");
        let uris = uris.into_iter().map(|uri| SanType::URI(uri.try_into().expect("ASCII")));
        parameters.subject_alt_names.extend(uris);
        parameters.distinguished_name.push(DnType::CommonName, file);
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.authority).expect("a certificate");
        let (certificate_file, key_file) =
            (self.path(&format!("{file}.crt")), self.path(&format!("{file}.key")));
        std::fs::write(&certificate_file, certificate.pem()).expect("a file for the certificate");
        std::fs::write(&key_file, key.serialize_pem()).expect("a file for the key");
        (certificate_file, key_file)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}

impl Default for Pki {
    fn default() -> Self {
        Pki::new()
    }
}
