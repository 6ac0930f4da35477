//! Passwords and certificates in files, read anew for each connection: what is mounted into a container changes under
//! way, and a process that would have to be restarted for it would be down until somebody thought of that.

use std::io;
use std::path::{Path, PathBuf};

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisResult, TlsCertificates};

use crate::token;

/// Where they are.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The password of the login; a newline at its end does not count.
    pub password: Option<PathBuf>,
    /// Certificates that the server's must descend from, PEM.
    pub ca: Option<PathBuf>,
    /// Client certificate chain and its private key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

// === impl Secrets ===

impl Secrets {
    /// Whether there is anything that only TLS needs.
    pub(crate) fn has_certificates(&self) -> bool {
        self.ca.is_some() || self.identity.is_some()
    }

    /// A client that brings them.
    ///
    /// # Errors
    /// A file cannot be read, or holds no certificate.
    pub(crate) fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        let info = match &self.password {
            Some(file) => {
                let password = read(file)?;
                let login = info.redis_settings().clone();
                info.set_redis_settings(login.set_password(password.trim_end_matches(['\r', '\n'])))
            }
            None => info,
        };
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Client::open(info);
        }
        let root_cert = self.ca.as_deref().map(read).transpose()?.map(String::into_bytes);
        let client_tls = match &self.identity {
            Some((certificate, key)) => Some(ClientTlsConfig {
                client_cert: read(certificate)?.into_bytes(),
                client_key: read(key)?.into_bytes(),
            }),
            None => None,
        };
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
    }
}

fn read(file: &Path) -> RedisResult<String> {
    token::read(file).map_err(|error| io::Error::other(error).into())
}
