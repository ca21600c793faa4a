//! Answers that were recorded on GCache's server.
use super::{BAD_TTL, CANNOT_DECODE, NO_KEY, NOT_FOUND, item};
use crate::{
    ListenerRole,
    tests::support::{Path, Server, run},
};

#[test]
fn every_recorded_answer_is_the_same() {
    run(|| async {
        let server = Server::new(&[]);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            for (method, body, status, answer) in [
                ("POST", r#"{"key":"k1","value":"v1","ttl":60}"#, 201, r#"{"key":"k1","value":"v1","ttl":60}"#),
                ("GET", r#"{"key":"k1"}"#, 200, r#"{"key":"k1","value":"v1"}"#),
                (
                    "POST",
                    r#"{"key":"d","value":{"b":1.0,"a":"x<y","n":12345678901234567890},"ttl":60}"#,
                    201,
                    r#"{"key":"d","value":{"b":1.0,"a":"x\u003cy","n":12345678901234567890},"ttl":60}"#,
                ),
                ("GET", r#"{"key":"d","subkey":"a"}"#, 200, r#"{"key":"d","value":"x\u003cy","subkey":"a"}"#),
                // Not GCache's 12345678901234567000.
                ("GET", r#"{"key":"d","subkey":"n"}"#, 200, r#"{"key":"d","value":12345678901234567890,"subkey":"n"}"#),
                ("GET", r#"{"key":"d","subkey":"zz"}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"d","subindex":1}"#, 400, NOT_FOUND),
                (
                    "POST",
                    r#"{"key":"l", "value" : [ "p", 2, null, true ], "subindex":1, "subkey":"s", "ttl":5}"#,
                    201,
                    r#"{"key":"l","value":["p",2,null,true],"subkey":"s","subindex":1,"ttl":5}"#,
                ),
                ("GET", r#"{"key":"l","subindex":2}"#, 200, r#"{"key":"l","value":2,"subindex":2}"#),
                ("GET", r#"{"key":"l","subindex":3}"#, 200, r#"{"key":"l","value":null,"subindex":3}"#),
                ("GET", r#"{"key":"l","subindex":0}"#, 200, r#"{"key":"l","value":["p",2,null,true]}"#),
                ("GET", r#"{"key":"l","subindex":9}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"l","subindex":-1}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"l","subindex":-9223372036854775808}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"l","subkey":"p"}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"k1","subkey":"a"}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"k1","subindex":1}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"none"}"#, 400, NOT_FOUND),
                ("GET", "{}", 400, NO_KEY),
                ("DELETE", "{}", 400, NO_KEY),
                ("GET", "", 400, CANNOT_DECODE),
                ("DELETE", "", 400, CANNOT_DECODE),
                ("GET", "{bad", 400, CANNOT_DECODE),
                ("DELETE", "{bad", 400, CANNOT_DECODE),
                ("POST", "", 400, CANNOT_DECODE),
                ("POST", r#"{"key":"t","value":1}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":4}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":-60}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":18748801}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":18748800}"#, 201, r#"{"key":"t","value":1,"ttl":18748800}"#),
                ("POST", r#"{"key":"t","ttl":60}"#, 400, r#"{"code":11,"reason":"no value provided"}"#),
                ("POST", r#"{"key":"t","value":null,"ttl":60}"#, 201, r#"{"key":"t","value":null,"ttl":60}"#),
                ("GET", r#"{"key":"t"}"#, 200, r#"{"key":"t","value":null}"#),
                ("POST", r#"{"value":1,"ttl":60}"#, 400, NO_KEY),
                ("POST", r#"{"key":"","value":1,"ttl":60}"#, 400, NO_KEY),
                ("POST", r#"{"key":"t","value":1,"ttl":"60"}"#, 400, CANNOT_DECODE),
                ("POST", "[1]", 400, CANNOT_DECODE),
                (
                    "POST",
                    r#"{"key":"&\u2028\n","value":"\b","ttl":60,"x":[1]}"#,
                    201,
                    r#"{"key":"\u0026\u2028\n","value":"\b","ttl":60}"#,
                ),
                ("DELETE", r#"{"key":"k1"}"#, 204, ""),
                ("DELETE", r#"{"key":"k1"}"#, 204, ""),
                ("GET", r#"{"key":"k1"}"#, 400, NOT_FOUND),
            ] {
                let reply = item(&mut client, method, body).await;
                let expected = if answer.is_empty() { String::new() } else { format!("{answer}\n") };
                assert_eq!((reply.status, reply.text()), (status, expected.as_str()), "{method} {body}");
                let content_type = (!answer.is_empty()).then_some("application/json");
                assert_eq!(reply.header("content-type"), content_type, "{method} {body}");
            }
        }
    });
}
