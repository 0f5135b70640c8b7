using System.Text.Json.Serialization;
using BatchKit;
using BatchKit.Transports;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit()
    .UseJson(ChatJson.Default) // registers a TypedOutput
    .UseLocal(_ => new MessageDispatcher(new JsonMessageCodec(ChatJson.Default)) // an IBatchTransport
        .On<ChatLine>((room, line, _) => new(Console.Out.WriteLineAsync($"{line.Who} in {room.Name}: {line.Text}"))));
using var host = builder.Build();
await host.StartAsync();
host.Services.GetRequiredService<TypedOutput>().Write(OutputHandle.Named("lobby"), new ChatLine("Ana", "Hello"));
await host.WaitForShutdownAsync();

internal sealed record ChatLine(string Who, string Text);

[JsonSerializable(typeof(ChatLine))]
internal sealed partial class ChatJson : JsonSerializerContext;
