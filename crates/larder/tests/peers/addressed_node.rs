//! A Larder at an address of the loopback, which its own flags give: killed when dropped.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
};

pub struct AddressedNode {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    address: String,
}

impl AddressedNode {
    /// `command`: the program, and what comes before the flags that are the same for all.
    pub fn spawn(mut command: Command, address: &str, peers: &str) -> AddressedNode {
        let mut child = command
            .args(["serve", "--log-level", "warn", "--redis", "off", "--admin", "off", "--source", "demo:"])
            .args(["--http", address, "--peers", peers])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"ready\":true"), "no ready line: {line}");
        AddressedNode { child, _stdout: stdout, address: address.to_owned() }
    }

    /// The body of an answer.
    pub fn get(&self, path: &str) -> String {
        self.ask("GET", path)
    }
    pub fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(format!("{method} {path} HTTP/1.0\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
    pub fn peers(&self) -> serde_json::Value {
        serde_json::from_str(&self.get("/v1/peers")).unwrap()
    }
    pub fn names(&self) -> Vec<String> {
        let peers = self.peers();
        let peers = peers["peers"].as_array().unwrap();
        peers.iter().map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for AddressedNode {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}
