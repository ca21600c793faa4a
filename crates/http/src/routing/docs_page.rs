//! `GET /docs`: the description of the routes as a page for people. It has no script and loads
//! nothing.
use super::{openapi, route::Route, route_request::RouteRequest};
use crate::messages::{
    html_page::{STYLE, html_page},
    problem_json::Answer,
};
use serde_json::Value;

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

pub(crate) fn docs_page(request: &RouteRequest<'_>, routes: &[Route]) -> Answer {
    Ok(html_page(page(&openapi::description(routes, openapi::prefixes(&request.worker.app.settings)))))
}

/// The page of an OpenAPI document, by tags. An empty document gives a page without routes.
fn page(document: &Value) -> String {
    let mut page = Page { document, html: String::with_capacity(128 * 1024) };
    page.raw("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>");
    page.text(&document["info"]["title"]);
    page.raw("</title><style>");
    page.raw(STYLE);
    page.raw("</style><h1>");
    page.text(&document["info"]["title"]);
    page.raw("</h1><p>");
    page.text(&document["info"]["summary"]);
    page.raw(". The same for programs: <a href=\"openapi.json\">openapi.json</a>.</p><p>");
    page.text(&document["info"]["description"]);
    page.raw("</p>");
    for tag in list(&document["tags"]) {
        page.raw("<h2>");
        page.text(&tag["name"]);
        page.raw("</h2><p>");
        page.text(&tag["description"]);
        page.raw("</p>");
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for method in METHODS {
                let operation = &item[method];
                if list(&operation["tags"]).first() == Some(&tag["name"]) {
                    page.operation(path, method, item, operation);
                }
            }
        }
    }
    page.html
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

struct Page<'d> {
    document: &'d Value,
    html: String,
}

impl<'d> Page<'d> {
    fn raw(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// A text of the document, with what stands in backticks as code.
    fn text(&mut self, text: &Value) {
        let parts = text.as_str().unwrap_or_default().split('`');
        for (number, part) in parts.enumerate() {
            let is_code = number % 2 == 1;
            self.raw(if is_code { "<code>" } else { "" });
            self.escaped(part);
            self.raw(if is_code { "</code>" } else { "" });
        }
    }

    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '<' => self.raw("&lt;"),
                '&' => self.raw("&amp;"),
                '"' => self.raw("&quot;"),
                c => self.html.push(c),
            }
        }
    }

    /// What a `$ref` leads to, or the value itself.
    fn resolved(&self, value: &'d Value) -> &'d Value {
        let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
        target.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    fn operation(&mut self, path: &str, method: &str, item: &'d Value, operation: &'d Value) {
        self.raw(&format!("<details><summary><b class=\"{method}\">{}</b> <code>", method.to_uppercase()));
        self.escaped(path);
        self.raw("</code> ");
        self.text(&operation["summary"]);
        self.raw("</summary><div><p>");
        self.text(&operation["description"]);
        self.raw("</p>");
        let parameters: Vec<_> = list(&item["parameters"]).iter().chain(list(&operation["parameters"])).collect();
        if !parameters.is_empty() {
            self.raw("<table><tr><th>parameter<th>in<th>");
            for parameter in parameters {
                let parameter = self.resolved(parameter);
                self.raw("<tr><td><code>");
                self.text(&parameter["name"]);
                self.raw("</code><td>");
                self.text(&parameter["in"]);
                self.raw(if parameter["required"] == true { ", required<td>" } else { "<td>" });
                self.text(&parameter["description"]);
            }
            self.raw("</table>");
        }
        let body = self.resolved(&operation["requestBody"]);
        if !body.is_null() {
            self.raw("<p>Body</p>");
            self.content(body);
        }
        self.raw("<table><tr><th>answer<th>");
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let response = self.resolved(response);
            self.raw("<tr><td><code>");
            self.escaped(status);
            self.raw("</code><td>");
            self.text(&response["description"]);
            self.content(response);
        }
        self.raw("</table></div></details>");
    }

    /// The media types of a body, with the first example of each or else its schema.
    fn content(&mut self, body: &'d Value) {
        for (kind, content) in body["content"].as_object().into_iter().flatten() {
            self.raw("<div><code>");
            self.escaped(kind);
            self.raw("</code></div>");
            let example = content["examples"].as_object().and_then(|examples| examples.values().next());
            let schema = self.resolved(&content["schema"]);
            let shown = match example.map(|example| &self.resolved(example)["value"]) {
                Some(value) if !value.is_null() => value,
                _ => schema,
            };
            if !shown.is_null() {
                self.raw("<pre>");
                // The descriptions in a schema are Markdown, too.
                self.text(&serde_json::to_string_pretty(shown).unwrap_or_default().into());
                self.raw("</pre>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route_table::ROUTES;

    #[test]
    fn the_page_lists_every_route_and_loads_nothing() {
        let page = page(&openapi::description(ROUTES, openapi::DEFAULT_PREFIXES));
        for route in ROUTES {
            let method = route.method.as_str();
            let line = format!("<b class=\"{}\">{method}</b> <code>{}</code>", method.to_lowercase(), route.pattern);
            assert_eq!(page.matches(&line).count(), 1, "{line}");
        }
        // `GET /` is another route on each listener.
        assert_eq!(page.matches("<details>").count(), ROUTES.len() - 1);
        assert!(!page.contains('`'), "Markdown");
        for loading in ["<script", "<link", "<img", "src=", "@import", "url(", "http://", "https://"] {
            assert!(!page.contains(loading), "{loading}");
        }
        assert_eq!(page.matches("<details>").count(), page.matches("</details>").count());
    }

    #[test]
    fn text_is_escaped() {
        let document = r#"{"info":{"title":"<b>&\""},"paths":{"/<x>":{"get":{"tags":["t"],"summary":"<i>"}}},"tags":[{"name":"t"}]}"#;
        let page = page(&serde_json::from_str(document).expect("JSON"));
        assert!(page.contains("<title>&lt;b>&amp;&quot;</title>") && page.contains("/&lt;x>") && !page.contains("<i>"));
        assert!(super::page(&Value::Null).contains("</h1>"));
    }
}
