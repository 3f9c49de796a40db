// OpenAI's client for Go against one gateway: with OPENAI_BASE_URL and OPENAI_API_KEY set, it prints
// one JSON object, a key per interface and case. The expected results are asserted by
// tests/integration/gateway/clients/test_openai_go.py, whose script the model `small` follows;
// `smollm2` is a real model.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

var (
	background = context.Background()
	client     = openai.NewClient()
	once       = option.WithMaxRetries(0)
	parameters = map[string]any{
		"type": "object", "properties": map[string]any{"zone": map[string]any{"type": "string"}},
	}
	river = map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"name"},
		"properties": map[string]any{
			"name": map[string]any{"type": "string", "minLength": 3, "maxLength": 12},
		},
	}
)

type object = map[string]any

// failure returns what a program can read from an error of the client.
func failure(err error) any {
	var known *openai.Error
	if errors.As(err, &known) {
		return object{"status": known.StatusCode, "code": known.Code, "message": known.Message}
	}
	if err == nil {
		return nil
	}
	return object{"message": err.Error()}
}

// zones returns the arguments of calls and appends their results.
func zone(arguments string) string {
	var found struct{ Zone string }
	if err := json.Unmarshal([]byte(arguments), &found); err != nil {
		return err.Error()
	}
	return found.Zone
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Chat completions.

func chat(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "small", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func chatText(params openai.ChatCompletionNewParams, options ...option.RequestOption) string {
	answer := must(client.Chat.Completions.New(background, params, options...))
	return answer.Choices[0].Message.Content
}

func chatTurns() any {
	params := chat("good day")
	first := must(client.Chat.Completions.New(background, params)).Choices[0].Message
	params.Messages = append(params.Messages, first.ToParam(), openai.UserMessage("good day once more"))
	return []string{first.Content, chatText(params)}
}

func chatStreamed() any {
	params := chat("good day")
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(background, params)
	whole, words := openai.ChatCompletionAccumulator{}, 0
	for stream.Next() {
		chunk := stream.Current()
		if !whole.AddChunk(chunk) {
			panic("a chunk does not continue the stream")
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			words++
		}
	}
	if stream.Err() != nil {
		panic(stream.Err())
	}
	return object{
		"words": words, "text": whole.Choices[0].Message.Content,
		"output": whole.Usage.CompletionTokens, "finish": whole.Choices[0].FinishReason,
	}
}

func chatTools() any {
	params := chat("what time")
	function := shared.FunctionDefinitionParam{Name: "time_now", Parameters: parameters}
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(function)}
	message := must(client.Chat.Completions.New(background, params)).Choices[0].Message
	params.Messages = append(params.Messages, message.ToParam())
	zones := []string{}
	for _, call := range message.ToolCalls {
		zones = append(zones, zone(call.Function.Arguments))
		params.Messages = append(params.Messages, openai.ToolMessage("12:00", call.ID))
	}
	return object{"zones": zones, "then": chatText(params)}
}

func chatSchema() any {
	params := chat("Name a river.")
	params.Model, params.MaxCompletionTokens = "smollm2", openai.Int(200)
	params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "river", Schema: river, Strict: openai.Bool(true),
		},
	}
	return json.RawMessage(chatText(params))
}

func chatPicture() any {
	params := chat("")
	params.Messages[0] = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart("good day"),
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: pixel}),
	})
	return chatText(params)
}

func chatFailure(model, text string, options ...option.RequestOption) any {
	params := chat(text)
	params.Model = model
	_, err := client.Chat.Completions.New(background, params, append(options, once)...)
	return failure(err)
}

func chatBroken() any {
	stream := client.Chat.Completions.NewStreaming(background, chat("break"), once)
	for stream.Next() {
	}
	return fmt.Sprint(stream.Err())
}

func chatAbandoned() any {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	stream := client.Chat.Completions.NewStreaming(ctx, chat("a long story"))
	return stream.Next()
}

// Responses.

func input(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: "small", Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items},
	}
}

func user(text string) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
}

func responseText(params responses.ResponseNewParams) string {
	return must(client.Responses.New(background, params)).OutputText()
}

func responseTurns() any {
	first := must(client.Responses.New(background, input(user("good day"))))
	second := input(user("good day once more"))
	second.PreviousResponseID = openai.String(first.ID)
	return []string{first.OutputText(), responseText(second)}
}

func responseStreamed() any {
	stream := client.Responses.NewStreaming(background, input(user("good day")))
	words, found := 0, object{}
	for stream.Next() {
		switch event := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			words++
		case responses.ResponseCompletedEvent:
			found["text"] = event.Response.OutputText()
			found["output"] = event.Response.Usage.OutputTokens
			found["finish"] = event.Response.Status
		}
	}
	if stream.Err() != nil {
		panic(stream.Err())
	}
	found["words"] = words
	return found
}

func responseTools() any {
	params := input(user("what time"))
	function := &responses.FunctionToolParam{Name: "time_now", Parameters: parameters}
	params.Tools = []responses.ToolUnionParam{{OfFunction: function}}
	first := must(client.Responses.New(background, params))
	zones, results := []string{}, []responses.ResponseInputItemUnionParam{}
	for _, item := range first.Output {
		if item.Type == "function_call" {
			call := item.AsFunctionCall()
			zones = append(zones, zone(call.Arguments))
			result := responses.ResponseInputItemParamOfFunctionCallOutput("12:00")
			result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			results = append(results, result)
		}
	}
	second := input(results...)
	second.Tools, second.PreviousResponseID = params.Tools, openai.String(first.ID)
	return object{"zones": zones, "then": responseText(second)}
}

func responseSchema() any {
	params := input(user("Name a river."))
	params.Model, params.MaxOutputTokens = "smollm2", openai.Int(200)
	params.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
		Name: "river", Schema: river, Strict: openai.Bool(true),
	}
	return json.RawMessage(responseText(params))
}

func responsePicture() any {
	image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
	image.OfInputImage.ImageURL = openai.String(pixel)
	content := responses.ResponseInputMessageContentListParam{
		responses.ResponseInputContentParamOfInputText("good day"), image,
	}
	return responseText(input(responses.ResponseInputItemParamOfInputMessage(content, "user")))
}

func responseFailure(model, text string, options ...option.RequestOption) any {
	params := input(user(text))
	params.Model = model
	_, err := client.Responses.New(background, params, append(options, once)...)
	return failure(err)
}

func responseBroken() any {
	stream := client.Responses.NewStreaming(background, input(user("break")), once)
	failed := ""
	for stream.Next() {
		if event, ok := stream.Current().AsAny().(responses.ResponseFailedEvent); ok {
			failed = event.Response.Error.Message
		}
	}
	return fmt.Sprint(failed, stream.Err())
}

func responseAbandoned() any {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	stream := client.Responses.NewStreaming(ctx, input(user("a long story")))
	for stream.Next() {
		if stream.Current().Type == "response.output_text.delta" {
			return true
		}
	}
	return false
}

func embeddings() any {
	found := must(client.Embeddings.New(background, openai.EmbeddingNewParams{
		Model: "small", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "bc"}},
	}))
	return [][]float64{found.Data[0].Embedding, found.Data[1].Embedding}
}

func models() any {
	found := []string{}
	for _, model := range must(client.Models.List(background)).Data {
		found = append(found, model.ID)
	}
	return found
}

// run returns the result of a case, or the panic that ended it.
func run(name string, test func() any) (found any) {
	defer func() {
		if problem := recover(); problem != nil {
			found = object{"failed": fmt.Sprintf("%s: %v", name, problem)}
		}
	}()
	return test()
}

func main() {
	type failing = func(model, text string, options ...option.RequestOption) any
	failures := func(fail failing, cases map[string]func() any) map[string]func() any {
		cases["refused"] = func() any { return fail("small", "refuse") }
		cases["wrong"] = func() any { return fail("small", "wrong") }
		cases["unknownModel"] = func() any { return fail("smal", "good day") }
		cases["wrongKey"] = func() any { return fail("small", "good day", option.WithAPIKey("sk-wrong")) }
		return cases
	}
	results := object{"embeddings": run("embeddings", embeddings), "models": run("models", models)}
	for name, cases := range map[string]map[string]func() any{
		"chat": failures(chatFailure, map[string]func() any{
			"twoTurns": chatTurns, "streamed": chatStreamed, "tools": chatTools, "schema": chatSchema,
			"picture": chatPicture, "broken": chatBroken, "abandoned": chatAbandoned,
			"retried": func() any { return chatText(chat("later for chat")) },
		}),
		"responses": failures(responseFailure, map[string]func() any{
			"twoTurns": responseTurns, "streamed": responseStreamed, "tools": responseTools,
			"schema": responseSchema, "picture": responsePicture, "broken": responseBroken,
			"abandoned": responseAbandoned,
			"retried":   func() any { return responseText(input(user("later for responses"))) },
		}),
	} {
		found := object{}
		for label, test := range cases {
			found[label] = run(label, test)
		}
		results[name] = found
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}
