//! From the settings of a connection to a stream: the URL's address, or the master that Sentinels
//! name.
use super::{connection_settings::ConnectionSettings, sentinel_master::MasterAddress};
use larder_base::outbound::{Stream, connect_tcp};
use larder_config::RedisAddress;
use std::io;
use tokio::net::UnixStream;

/// Opens a stream to the address, or to the master that Sentinels name. Does not send any command
/// yet.
pub(super) async fn connect(settings: &ConnectionSettings, master: Option<&mut MasterAddress>) -> io::Result<Stream> {
    let (address, tls) = match (&settings.master, master) {
        (Some(named), Some(master)) => {
            let address = named.wait_address(master, settings.limits.timeout).await?;
            let settings = settings.at(&address).map_err(io::Error::other)?;
            (address, settings.tls)
        }
        _ => (settings.url.address.clone(), settings.tls.clone()),
    };
    match &address {
        RedisAddress::Unix(path) => match UnixStream::connect(path).await {
            Ok(stream) => Ok(Stream::Unix(stream)),
            // The path is what a reader of the error wants to compare.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::other(format!("no socket at {}", path.display())))
            }
            Err(error) => Err(io::Error::other(format!("{}: {}", path.display(), error.kind()))),
        },
        RedisAddress::Tcp { host, port } => connect_tcp(host, *port, tls.as_ref()).await,
    }
}
