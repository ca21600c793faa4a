//! The floor of a server on hyper: one tokio runtime of one thread, a handler that has its answer
//! ready.
use super::sockets::accepted;
use crate::lib::servers::FLOOR_VALUE;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, net::TcpListener};
use tokio::{
    net::TcpStream,
    runtime::{Builder, LocalOptions},
};

/// Serves until the process ends.
pub(super) fn serve(listener: TcpListener) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_io().build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let stream = TcpStream::from_std(accepted(stream.into_std()?)?)?;
            tokio::task::spawn_local(async move {
                let answer = |_: Request<Incoming>| async {
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&FLOOR_VALUE))))
                };
                // Without a timer; one buffer for head and body.
                let connection = http1::Builder::new()
                    .header_read_timeout(None)
                    .writev(false)
                    .serve_connection(TokioIo::new(stream), service_fn(answer));
                // Its client has gone.
                let _ = connection.await;
            });
        }
    })
}
