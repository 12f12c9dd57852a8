"""A language model over the OpenAI-compatible protocol: a real HTTP server on the loopback."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stillroom.errors import BadInput
from stillroom.transforms.language_models import (
    LanguageModelFailed,
    json_in,
    language_model,
)


@contextmanager
def endpoint(answers, monkeypatch, tmp_path, status=200):
    """A server that gives these answers in turn, and the bodies that it was sent."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            text = answers[min(len(asked), len(answers)) - 1]
            made = {
                "id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop",
                             "message": {"role": "assistant", "content": text}}],
            }  # fmt: skip
            raw = json.dumps(made if status == 200 else {"error": {"message": text}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path / "cache"))
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()


def numbers(answer):
    made = json_in(answer)
    if not isinstance(made, list):
        raise ValueError("no list")
    return made


def test_an_answer_is_checked_and_asked_for_once(monkeypatch, tmp_path):
    with endpoint(["Sure! [1, 2]"], monkeypatch, tmp_path) as asked:
        model = language_model("openai:any-model")
        assert model.ask("question", numbers) == [1, 2]
        assert model.ask("question", numbers) == [1, 2]
        assert model.ask("another", numbers) == [1, 2]
    assert [body["messages"][0]["content"] for body in asked] == ["question", "another"]
    assert {body["model"] for body in asked} == {"any-model"}
    assert {body["temperature"] for body in asked} == {0.0}


def test_a_malformed_answer_is_asked_for_again_and_never_kept(monkeypatch, tmp_path):
    with endpoint(["nothing", "{}", "nothing", "[3]"], monkeypatch, tmp_path) as asked:
        model = language_model("openai:m")
        assert model.ask("q", numbers) is None
        assert model.ask("q", numbers) == [3]
        assert model.ask("q", numbers) == [3]
    assert len(asked) == 4


def test_an_endpoint_that_refuses_is_told(monkeypatch, tmp_path):
    with (
        endpoint(["no such model"], monkeypatch, tmp_path, status=404),
        pytest.raises(LanguageModelFailed, match="'m'.*no such model"),
    ):
        language_model("openai:m").ask("q", numbers)


def test_without_a_key(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path))
    with pytest.raises(LanguageModelFailed, match=r"OPENAI_API_KEY|api_key"):
        language_model("openai:m").ask("q", numbers)


@pytest.mark.parametrize("spec", ["gpt-4", "openai:", "local:x"])
def test_a_spec_that_is_none(spec):
    with pytest.raises(BadInput, match="none or openai:MODEL"):
        language_model(spec)


def test_none_is_no_model():
    assert language_model("none") is None


@pytest.mark.parametrize(
    ("answer", "value"),
    [('["a"] and more', ["a"]), ('```json\n{"a": [1]}\n```', {"a": [1]}), ("x [1]", [1])],
)
def test_json_is_found_in_an_answer(answer, value):
    assert json_in(answer) == value
