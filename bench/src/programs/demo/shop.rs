//! The application: a shop whose pages are made of five keys.
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    small_server::{Answer, listen},
};
use anyhow::{Context, bail};
use std::{net::SocketAddr, time::Duration};

/// How long Redis may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
const PRODUCTS: u64 = 500;
/// The keys of a page, each with the number of its product behind a colon.
const PARTS: [&str; 5] = ["product", "price", "stock", "reviews", "related"];

/// How each page begins. Without an icon of its own, a browser asks for one.
const HEAD: &str = "<!doctype html><html lang=en><link rel=icon href=data:,>";

/// Stores the data of all products.
pub(super) fn fill(client: &mut RespClient) -> anyhow::Result<()> {
    client.load(PRODUCTS * PARTS.len() as u64, |number, key, value| {
        let (product, part) = (number % PRODUCTS, PARTS[(number / PRODUCTS) as usize]);
        *key = format!("{part}:{product}").into_bytes();
        *value = match part {
            "product" => format!("Lamp {product}, {}", "a lamp for reading in the evening, ".repeat(10)),
            "price" => format!("{}.90", 10 + product % 90),
            "stock" => "1000000".to_owned(),
            "reviews" => "A reader likes this lamp. ".repeat(20),
            _ => format!("Lamp {}, Lamp {}", (product + 1) % PRODUCTS, (product + 7) % PRODUCTS),
        }
        .into_bytes();
    })
}

/// Starts a shop that reads and writes at `store`. Each connection of a visitor has one to the store.
pub(super) fn start(store: SocketAddr) -> anyhow::Result<SocketAddr> {
    listen(0, move || {
        let mut client = None;
        move |request: &str| {
            let answered = answer(request, store, &mut client);
            // After an error it is unknown what comes next on the connection.
            if answered.is_err() {
                client = None;
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

fn answer(request: &str, store: SocketAddr, client: &mut Option<RespClient>) -> anyhow::Result<Option<String>> {
    let page = request.strip_prefix("GET /product/").map(|product| (product, false));
    let order = request.strip_prefix("POST /order/").map(|product| (product, true));
    let Some((product, orders)) = page.or(order) else { return Ok(None) };
    let Ok(product) = product.parse::<u64>() else { return Ok(None) };
    let client = match client {
        Some(client) => client,
        None => client.insert(RespClient::connect(store, TIMEOUT)?),
    };
    if orders {
        return match client.call(&[b"DECR", format!("stock:{product}").as_bytes()])? {
            RedisReply::Integer(left) => Ok(Some(format!("{HEAD}<title>Ordered</title><p>{left} left</p>"))),
            other => bail!("DECR was answered {other:?}"),
        };
    }
    let mut read = |part: &str| -> anyhow::Result<String> {
        match client.call(&[b"GET", format!("{part}:{product}").as_bytes()])? {
            RedisReply::Bulk(value) => String::from_utf8(value.unwrap_or_default()).context("a value is not text"),
            other => bail!("GET was answered {other:?}"),
        }
    };
    let [text, price, stock, reviews, related] = PARTS.map(&mut read);
    let (text, price, stock, reviews, related) = (text?, price?, stock?, reviews?, related?);
    Ok(Some(format!(
        "{HEAD}<title>Lamp {product}</title><h1>Lamp {product}</h1><p>{text}</p>\
         <p><b>{price} €</b>, {stock} in stock</p><form method=post action=/order/{product}><button>Order</button></form>\
         <h2>Reviews</h2><p>{reviews}</p><h2>Others bought</h2><p>{related}</p>"
    )))
}
