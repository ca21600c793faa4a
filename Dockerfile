# docker build --tag larder .                            runs all tests, then makes the image
# docker build --tag larder --target image-untested .    makes the image without the tests
# make image                                             the image of a program that cargo has built, in seconds (`prebuilt` below)
#
# Paths in COPY and RUN are relative where they can be, so that tests/docker/check runs them as written in a plain directory.

# glibc, CA certificates and an unprivileged user; no shell. `deploy/image/build` makes one of the same from Debian's packages.
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

# All of the image but the program and its licences.
FROM ${BASE} AS runtime
USER 65532:65532
# All interfaces: the container's network is the boundary. Publish the admin port (8081) to trusted networks only.
ENV LARDER_HTTP=:8080 LARDER_REDIS=:6380 LARDER_ADMIN=:8081 LARDER_INSECURE=true LARDER_LOG_FORMAT=json
EXPOSE 8080 6380 8081 7946/udp
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/larder"]
CMD ["serve"]
# Healthy is ready: larder listens and can answer. Where an unhealthy container is restarted (Swarm, ECS), add --alive: a lost source is then no
# reason to lose the memory tier, too.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["/usr/local/bin/larder", "health", "--timeout", "2s"]

# Its context is a folder with the program, not the repository. Before the stages that compile, because older builders make all stages up to
# the one that is asked for.
FROM runtime AS prebuilt
COPY larder /usr/local/bin/larder
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/larder/
COPY --chown=65532:65532 data /data
WORKDIR /data

FROM rust:1.95-bookworm AS source
WORKDIR /src
COPY . .

# Everything that `make test` runs, client libraries included: hence go and node, newer than Debian's, from their own images.
FROM source AS test
COPY --from=golang:1.26-bookworm /usr/local/go /usr/local/go
COPY --from=node:20-bookworm /usr/local/bin/node /usr/local/bin/node
COPY --from=node:20-bookworm /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ENV PATH=/usr/local/go/bin:/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN make test && touch tests-passed

FROM source AS build
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --package larder \
    && install -D -s -m 0755 target/release/larder image/larder \
    && install -m 0644 LICENSE-APACHE LICENSE-MIT image/ \
    && mkdir image/data

# The `test` service of docker-compose.yaml: waits for redis and larder, then reads through with urllib and redis-py.
FROM python:3.13-slim-bookworm AS smoke
WORKDIR /smoke
COPY tests/clients/python/requirements.txt tests/clients/python/client.py tests/clients/python/harness.py tests/docker/smoke.py ./
RUN python3 -m venv env && env/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
USER 65532:65532
ENTRYPOINT ["env/bin/python", "smoke.py"]

FROM runtime AS image-untested
COPY --from=build /src/image/larder /usr/local/bin/larder
COPY --from=build /src/image/LICENSE-APACHE /src/image/LICENSE-MIT /usr/share/doc/larder/
COPY --from=build --chown=65532:65532 /src/image/data /data
WORKDIR /data

# Asking for the mark is what makes the tests run before there is an image.
FROM image-untested AS image
COPY --from=test /src/tests-passed /usr/share/doc/larder/tests-passed
