using System.Text.Json.Serialization;
using BatchKit;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit(options => options.Node = 1).UseJson(GameJson.Default)
    .UseRabbitMq(builder.Configuration.GetSection("RabbitMq")).ReceiveFromRabbitMq<GameInput>();
using var host = builder.Build();
await host.StartAsync();
host.Services.GetRequiredService<TypedOutput>().Write(OutputHandle.Connection(node: 1, sequence: 7), new Command("look"));
await host.WaitForShutdownAsync();

internal sealed record Command(string Text);

[JsonSerializable(typeof(Command))]
internal sealed partial class GameJson : JsonSerializerContext;

internal sealed class GameInput : IMessageHandler
{
    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
        {
            if (message.TryRead<Command>(out var command))
                Console.WriteLine($"{message.Handle}: {command.Text}");
        }

        return ValueTask.CompletedTask;
    }
}
