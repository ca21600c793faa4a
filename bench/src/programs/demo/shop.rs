//! The application: a shop whose pages are made of five keys.
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    small_server::{Answer, listen},
    sql_client::SqlClient,
};
use anyhow::{Context, bail, ensure};
use std::{net::SocketAddr, time::Duration};

/// How long an answer of Redis may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
const PRODUCTS: u64 = 500;
/// The keys of a page, each with the number of its product behind a colon.
const PARTS: [&str; 5] = ["product", "price", "stock", "reviews", "related"];

/// How each page begins. Without an icon of its own, a browser asks for one.
const HEAD: &str = "<!doctype html><html lang=en><link rel=icon href=data:,>";

/// Where a shop reads, or orders.
#[derive(Debug, Clone, Copy)]
pub(super) enum Store {
    /// A redis-server or a Larder.
    Redis(SocketAddr),
    /// A PostgreSQL with the table `shop`.
    Postgres(SocketAddr),
}

/// A connection to a store.
enum Client {
    Redis(RespClient),
    Postgres(SqlClient),
}

impl Client {
    fn connect(store: Store) -> anyhow::Result<Client> {
        Ok(match store {
            Store::Redis(address) => Client::Redis(RespClient::connect(address, TIMEOUT)?),
            Store::Postgres(address) => Client::Postgres(SqlClient::connect(address)?),
        })
    }

    fn read(&mut self, key: &str) -> anyhow::Result<String> {
        match self {
            Client::Redis(client) => match client.call(&[b"GET", key.as_bytes()])? {
                RedisReply::Bulk(value) => String::from_utf8(value.unwrap_or_default()).context("a value is not text"),
                other => bail!("GET was answered {other:?}"),
            },
            Client::Postgres(client) => {
                Ok(client.text("SELECT value FROM shop WHERE key = $1", key)?.unwrap_or_default())
            }
        }
    }

    /// Takes one of a number; how many are left.
    fn take(&mut self, key: &str) -> anyhow::Result<String> {
        match self {
            Client::Redis(client) => match client.call(&[b"DECR", key.as_bytes()])? {
                RedisReply::Integer(left) => Ok(left.to_string()),
                other => bail!("DECR was answered {other:?}"),
            },
            Client::Postgres(client) => client
                .text("UPDATE shop SET value = value::int - 1 WHERE key = $1 RETURNING value", key)?
                .context("there is no such product"),
        }
    }
}

/// The data of all products: keys and values, in which is no quote.
fn data() -> impl Iterator<Item = (String, String)> {
    let of = |part: &'static str, product: u64| {
        let value = match part {
            "product" => format!("Lamp {product}, {}", "a lamp for reading in the evening, ".repeat(10)),
            "price" => format!("{}.90", 10 + product % 90),
            "stock" => "1000000".to_owned(),
            "reviews" => "A reader likes this lamp. ".repeat(20),
            _ => format!("Lamp {}, Lamp {}", (product + 1) % PRODUCTS, (product + 7) % PRODUCTS),
        };
        (format!("{part}:{product}"), value)
    };
    PARTS.into_iter().flat_map(move |part| (0..PRODUCTS).map(move |product| of(part, product)))
}

/// Stores the data of all products, where they outlive a kill.
pub(super) fn fill(store: Store) -> anyhow::Result<()> {
    match Client::connect(store)? {
        Client::Redis(mut client) => {
            let mut data = data();
            client.load(PRODUCTS * PARTS.len() as u64, |_, key, value| {
                let (name, text) = data.next().unwrap_or_default();
                (*key, *value) = (name.into_bytes(), text.into_bytes());
            })?;
            let saved = client.call(&[b"SAVE"])?;
            ensure!(saved == RedisReply::Status("OK".into()), "redis-server answered SAVE with {saved:?}");
            Ok(())
        }
        Client::Postgres(mut client) => {
            let rows: Vec<String> = data().map(|(key, value)| format!("('{key}', '{value}')")).collect();
            let create = "CREATE TABLE shop (key text PRIMARY KEY, value text NOT NULL)";
            client.run(&format!("{create}; INSERT INTO shop VALUES {}; ANALYZE shop", rows.join(", ")))
        }
    }
}

/// Starts a shop. Each connection of a visitor has one to each store that it needs.
pub(super) fn start(reads: Store, orders: Store) -> anyhow::Result<SocketAddr> {
    listen(0, move || {
        let mut clients = [None, None];
        move |request: &str| {
            let is_order = request.starts_with("POST ");
            let (store, client) = if is_order { (orders, &mut clients[1]) } else { (reads, &mut clients[0]) };
            let answered = answer(request, store, client);
            // After an error it is unknown what comes next on the connection.
            if answered.is_err() {
                *client = None;
            }
            let (status, body) = match answered {
                Ok(Some(page)) => ("200 OK", page),
                Ok(None) => ("404 Not Found", "no such page\n".to_owned()),
                Err(error) => ("503 Service Unavailable", format!("sorry: {error:#}\n")),
            };
            Some(Answer { status, header: ("Content-Type", "text/html; charset=utf-8".to_owned()), body: body.into() })
        }
    })
}

fn answer(request: &str, store: Store, client: &mut Option<Client>) -> anyhow::Result<Option<String>> {
    let page = request.strip_prefix("GET /product/").map(|product| (product, false));
    let order = request.strip_prefix("POST /order/").map(|product| (product, true));
    let Some((product, orders)) = page.or(order) else { return Ok(None) };
    let Ok(product) = product.parse::<u64>() else { return Ok(None) };
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::connect(store)?),
    };
    if orders {
        let left = client.take(&format!("stock:{product}"))?;
        return Ok(Some(format!("{HEAD}<title>Ordered</title><p>{left} left</p>")));
    }
    let [text, price, stock, reviews, related] = PARTS.map(|part| client.read(&format!("{part}:{product}")));
    let (text, price, stock, reviews, related) = (text?, price?, stock?, reviews?, related?);
    Ok(Some(format!(
        "{HEAD}<title>Lamp {product}</title><h1>Lamp {product}</h1><p>{text}</p>\
         <p><b>{price} €</b>, {stock} in stock</p><form method=post action=/order/{product}><button>Order</button></form>\
         <h2>Reviews</h2><p>{reviews}</p><h2>Others bought</h2><p>{related}</p>"
    )))
}
