//! nginx and haproxy, with configurations of the tests' own.
use super::common::{Port, wait_until};
use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A proxy that listens, killed when dropped.
pub struct Proxy {
    child: Child,
    ports: Vec<Port>,
    _dir: TempDir,
}

impl Proxy {
    /// nginx with these servers, each for one port: `stream` blocks, then `http` blocks. A block
    /// has `LISTEN` for its address.
    pub fn nginx(stream: &[String], http: &[String]) -> Proxy {
        let servers = |blocks: &[String]| -> String {
            blocks.iter().map(|block| format!("server {{ listen LISTEN; {block} }}\n")).collect()
        };
        let (stream_servers, http_servers) = (servers(stream), servers(http));
        let configuration = format!(
            "daemon off; master_process off; pid DIR/pid; error_log stderr;\n\
             load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n\
             events {{ worker_connections 512; }}\n\
             stream {{ {stream_servers} }}\n\
             http {{ access_log off; client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;\n\
             {http_servers} }}\n"
        );
        Proxy::start("nginx", &["-p", "DIR", "-c", "DIR/conf"], &configuration, stream.len() + http.len())
    }

    /// haproxy with these proxies, each for one port: the lines of a `listen` section, in which the
    /// address is `LISTEN`.
    pub fn haproxy(proxies: &[String]) -> Proxy {
        let sections: String = (proxies.iter().enumerate())
            .map(|(at, lines)| format!("listen p{at}\n  bind LISTEN\n  {}\n", lines.replace('\n', "\n  ")))
            .collect();
        let configuration =
            format!("defaults\n  timeout connect 30s\n  timeout client 60s\n  timeout server 60s\n{sections}");
        Proxy::start("haproxy", &["-db", "-f", "DIR/conf"], &configuration, proxies.len())
    }

    fn start(program: &str, args: &[&str], configuration: &str, servers: usize) -> Proxy {
        let dir = tempfile::tempdir().unwrap();
        let ports: Vec<Port> = (0..servers).map(|_| Port::free()).collect();
        let folder = dir.path().to_str().unwrap();
        let mut text = configuration.replace("DIR", folder);
        for port in &ports {
            text = text.replacen("LISTEN", &format!("127.0.0.1:{}", port.number), 1);
        }
        fs::write(dir.path().join("conf"), &text).unwrap();
        // Debian keeps servers in a folder that not every PATH has.
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let errors = fs::File::create(dir.path().join("errors")).unwrap();
        let mut child = Command::new(program)
            .args(args.iter().map(|arg| arg.replace("DIR", folder)))
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{program} is installed (make tools): {error}"));
        wait_until(program, || {
            let errors = || fs::read_to_string(dir.path().join("errors")).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "{program} ended: {}\n{text}", errors());
            ports.iter().all(|port| TcpStream::connect(("127.0.0.1", port.number)).is_ok())
        });
        Proxy { child, ports, _dir: dir }
    }

    /// Where the server or section of this number listens.
    pub fn port(&self, number: usize) -> u16 {
        self.ports[number].number
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}
