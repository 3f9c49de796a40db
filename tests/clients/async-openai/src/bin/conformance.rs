//! The Rust client async-openai against one gateway: with OPENAI_BASE_URL and OPENAI_API_KEY set, it
//! prints one JSON object, a key per interface and case. The expected results are asserted by
//! tests/integration/gateway/clients/test_async_openai.py, whose script the model `small` follows;
//! `smollm2` is a real model. Requests and answers are the types of the client.
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, CreateChatCompletionRequest, FinishReason,
};
use async_openai::types::embeddings::CreateEmbeddingRequestArgs;
use async_openai::types::responses::{
    CreateResponse, OutputItem, ResponseStreamEvent, Status,
};
use futures::StreamExt;
use serde_json::{Value, json};

type Found = Result<Value, Box<dyn std::error::Error>>;
type Api = Client<OpenAIConfig>;

const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn river() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["name"],
        "properties": {"name": {"type": "string", "minLength": 3, "maxLength": 12}},
    })
}

fn parameters() -> Value {
    json!({"type": "object", "properties": {"zone": {"type": "string"}}})
}

fn zone(arguments: &str) -> Found {
    Ok(serde_json::from_str::<Value>(arguments)?["zone"].clone())
}

/// What a program can read from an error of the client.
fn failure<T>(result: Result<T, OpenAIError>) -> Value {
    match result {
        Ok(_) => Value::Null,
        Err(OpenAIError::ApiError(error)) => json!({
            "status": error.status_code.as_u16(),
            "code": error.api_error.code,
            "message": error.api_error.message,
        }),
        Err(error) => json!({"message": error.to_string()}),
    }
}

// Chat completions.

fn chat(messages: Value, more: Value) -> Result<CreateChatCompletionRequest, serde_json::Error> {
    let mut fields = json!({"model": "small", "messages": messages});
    for (name, value) in more.as_object().into_iter().flatten() {
        fields[name] = value.clone();
    }
    serde_json::from_value(fields)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

async fn chat_text(api: &Api, messages: Value, more: Value) -> Found {
    let answer = api.chat().create(chat(messages, more)?).await?;
    Ok(json!(answer.choices[0].message.content))
}

async fn chat_turns(api: &Api) -> Found {
    let first = chat_text(api, json!([user("good day")]), json!({})).await?;
    let turns = json!([
        user("good day"), {"role": "assistant", "content": first}, user("good day once more"),
    ]);
    Ok(json!([first, chat_text(api, turns, json!({})).await?]))
}

async fn chat_streamed(api: &Api) -> Found {
    let more = json!({"stream_options": {"include_usage": true}});
    let mut stream = api.chat().create_stream(chat(json!([user("good day")]), more)?).await?;
    let (mut words, mut text, mut output, mut finish) = (0, String::new(), 0, None);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        if let Some(usage) = chunk.usage {
            output = usage.completion_tokens;
        }
        for choice in chunk.choices {
            let word = choice.delta.content.unwrap_or_default();
            words += usize::from(!word.is_empty());
            text += &word;
            finish = choice.finish_reason.or(finish);
        }
    }
    let finish = if finish == Some(FinishReason::Stop) { "stop" } else { "other" };
    Ok(json!({"words": words, "text": text, "output": output, "finish": finish}))
}

async fn chat_tools(api: &Api) -> Found {
    let function = json!({"name": "time_now", "parameters": parameters()});
    let more = json!({"tools": [{"type": "function", "function": function}]});
    let request = chat(json!([user("what time")]), more.clone())?;
    let answer = api.chat().create(request).await?;
    let calls = answer.choices[0].message.tool_calls.clone().unwrap_or_default();
    let mut messages = vec![user("what time"), json!({"role": "assistant", "tool_calls": calls})];
    let mut zones = vec![];
    for call in calls {
        if let ChatCompletionMessageToolCalls::Function(call) = call {
            zones.push(zone(&call.function.arguments)?);
            messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": "12:00"}));
        }
    }
    Ok(json!({"zones": zones, "then": chat_text(api, json!(messages), more).await?}))
}

async fn chat_schema(api: &Api) -> Found {
    let schema = json!({"name": "river", "schema": river(), "strict": true});
    let more = json!({
        "model": "smollm2", "max_completion_tokens": 200,
        "response_format": {"type": "json_schema", "json_schema": schema},
    });
    let text = chat_text(api, json!([user("Name a river.")]), more).await?;
    Ok(serde_json::from_str(text.as_str().unwrap_or_default())?)
}

async fn chat_picture(api: &Api) -> Found {
    let content = json!([
        {"type": "text", "text": "good day"},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]);
    chat_text(api, json!([{"role": "user", "content": content}]), json!({})).await
}

async fn chat_failure(api: &Api, model: &str, text: &str) -> Found {
    let request = chat(json!([user(text)]), json!({"model": model}))?;
    Ok(failure(api.chat().create(request).await))
}

async fn chat_broken(api: &Api) -> Found {
    let mut stream = api.chat().create_stream(chat(json!([user("break")]), json!({}))?).await?;
    while let Some(chunk) = stream.next().await {
        if let Err(error) = chunk {
            return Ok(json!(error.to_string()));
        }
    }
    Ok(Value::Null)
}

async fn chat_abandoned(api: &Api) -> Found {
    let request = chat(json!([user("a long story")]), json!({}))?;
    let mut stream = api.chat().create_stream(request).await?;
    Ok(json!(stream.next().await.is_some()))
}

// Responses.

fn input(items: Value, more: Value) -> Result<CreateResponse, serde_json::Error> {
    let mut fields = json!({"model": "small", "input": items});
    for (name, value) in more.as_object().into_iter().flatten() {
        fields[name] = value.clone();
    }
    serde_json::from_value(fields)
}

async fn response_text(api: &Api, items: Value, more: Value) -> Found {
    Ok(json!(api.responses().create(input(items, more)?).await?.output_text()))
}

async fn response_turns(api: &Api) -> Found {
    let first = api.responses().create(input(json!("good day"), json!({}))?).await?;
    let more = json!({"previous_response_id": first.id});
    let second = response_text(api, json!("good day once more"), more).await?;
    Ok(json!([first.output_text(), second]))
}

async fn response_streamed(api: &Api) -> Found {
    let mut stream = api.responses().create_stream(input(json!("good day"), json!({}))?).await?;
    let (mut words, mut found) = (0, json!({}));
    while let Some(event) = stream.next().await {
        match event? {
            ResponseStreamEvent::ResponseOutputTextDelta(_) => words += 1,
            ResponseStreamEvent::ResponseCompleted(event) => {
                found["text"] = json!(event.response.output_text());
                found["output"] = json!(event.response.usage.map(|usage| usage.output_tokens));
                found["finish"] = json!(event.response.status == Status::Completed);
            }
            _ => {}
        }
    }
    found["words"] = json!(words);
    Ok(found)
}

async fn response_tools(api: &Api) -> Found {
    let tools = json!([{"type": "function", "name": "time_now", "parameters": parameters()}]);
    let request = input(json!("what time"), json!({"tools": tools}))?;
    let first = api.responses().create(request).await?;
    let (mut zones, mut results) = (vec![], vec![]);
    for item in first.output {
        if let OutputItem::FunctionCall(call) = item {
            zones.push(zone(&call.arguments)?);
            results.push(json!({
                "type": "function_call_output", "call_id": call.call_id, "output": "12:00",
            }));
        }
    }
    let more = json!({"tools": tools, "previous_response_id": first.id});
    Ok(json!({"zones": zones, "then": response_text(api, json!(results), more).await?}))
}

async fn response_schema(api: &Api) -> Found {
    let format = json!({
        "type": "json_schema", "name": "river", "schema": river(), "strict": true,
    });
    let more = json!({
        "model": "smollm2", "max_output_tokens": 200, "text": {"format": format},
    });
    let text = response_text(api, json!("Name a river."), more).await?;
    Ok(serde_json::from_str(text.as_str().unwrap_or_default())?)
}

async fn response_picture(api: &Api) -> Found {
    let content = json!([
        {"type": "input_text", "text": "good day"},
        {"type": "input_image", "detail": "auto", "image_url": PIXEL},
    ]);
    let message = json!({"type": "message", "role": "user", "content": content});
    response_text(api, json!([message]), json!({})).await
}

async fn response_failure(api: &Api, model: &str, text: &str) -> Found {
    let request = input(json!(text), json!({"model": model}))?;
    Ok(failure(api.responses().create(request).await))
}

async fn response_broken(api: &Api) -> Found {
    let mut stream = api.responses().create_stream(input(json!("break"), json!({}))?).await?;
    while let Some(event) = stream.next().await {
        match event {
            Err(error) => return Ok(json!(error.to_string())),
            Ok(ResponseStreamEvent::ResponseFailed(event)) => {
                return Ok(json!(event.response.error.map(|error| error.message)));
            }
            Ok(_) => {}
        }
    }
    Ok(Value::Null)
}

async fn response_abandoned(api: &Api) -> Found {
    let request = input(json!("a long story"), json!({}))?;
    let mut stream = api.responses().create_stream(request).await?;
    while let Some(event) = stream.next().await {
        if let ResponseStreamEvent::ResponseOutputTextDelta(_) = event? {
            return Ok(json!(true));
        }
    }
    Ok(json!(false))
}

async fn embeddings(api: &Api) -> Found {
    let request =
        CreateEmbeddingRequestArgs::default().model("small").input(["a", "bc"]).build()?;
    let found = api.embeddings().create(request).await?;
    Ok(json!(found.data.into_iter().map(|one| one.embedding).collect::<Vec<_>>()))
}

async fn models(api: &Api) -> Found {
    let found = api.models().list().await?;
    Ok(json!(found.data.into_iter().map(|model| model.id).collect::<Vec<_>>()))
}

fn shown(found: Found) -> Value {
    found.unwrap_or_else(|error| json!({"failed": format!("{error:?}")}))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let api = Client::new();
    let wrong = Client::with_config(OpenAIConfig::new().with_api_key("sk-wrong"));
    let results = json!({
        "embeddings": shown(embeddings(&api).await),
        "models": shown(models(&api).await),
        "chat": {
            "twoTurns": shown(chat_turns(&api).await),
            "streamed": shown(chat_streamed(&api).await),
            "tools": shown(chat_tools(&api).await),
            "schema": shown(chat_schema(&api).await),
            "picture": shown(chat_picture(&api).await),
            "retried": shown(chat_text(&api, json!([user("later for chat")]), json!({})).await),
            "refused": shown(chat_failure(&api, "small", "refuse").await),
            "wrong": shown(chat_failure(&api, "small", "wrong").await),
            "unknownModel": shown(chat_failure(&api, "smal", "good day").await),
            "wrongKey": shown(chat_failure(&wrong, "small", "good day").await),
            "broken": shown(chat_broken(&api).await),
            "abandoned": shown(chat_abandoned(&api).await),
        },
        "responses": {
            "twoTurns": shown(response_turns(&api).await),
            "streamed": shown(response_streamed(&api).await),
            "tools": shown(response_tools(&api).await),
            "schema": shown(response_schema(&api).await),
            "picture": shown(response_picture(&api).await),
            "retried": shown(response_text(&api, json!("later for responses"), json!({})).await),
            "refused": shown(response_failure(&api, "small", "refuse").await),
            "wrong": shown(response_failure(&api, "small", "wrong").await),
            "unknownModel": shown(response_failure(&api, "smal", "good day").await),
            "wrongKey": shown(response_failure(&wrong, "small", "good day").await),
            "broken": shown(response_broken(&api).await),
            "abandoned": shown(response_abandoned(&api).await),
        },
    });
    println!("{results}");
}
