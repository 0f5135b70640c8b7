using System.Collections.Immutable;
using System.Text.Json.Serialization;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors of registering a buffer and of writing to it.</summary>
internal static class CoreErrors
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    public static async Task CollectAsync(ErrorCollector errors)
    {
        await CollectRegistrationAsync(errors);
        CollectRouting(errors);
        await CollectWritesAsync(errors);
        await CollectLossAsync(errors);
        await CollectTypedAsync(errors);
    }

    private static async Task CollectRegistrationAsync(ErrorCollector errors)
    {
        await errors.CatchAsync("A buffer without a route", static () => StartAsync(static services => services.AddBatchKit()));
        await errors.CatchAsync("Two routes and no router", static () => StartAsync(static services => services.AddBatchKit().AddRoute("one", Transport).AddRoute("two", Transport)));
        errors.Catch("The same buffer twice", static () => Register(static services => services.AddBatchKit("game").Services.AddBatchKit("game")));
        errors.Catch("Two adapters on one buffer", static () => Register(static services => services.AddBatchKit().UseRabbitMq().UseMqtt()));
        errors.Catch("Two routers", static () => Register(static services => services.AddBatchKit().UseRouter(static _ => new Router("one")).UseRouter(static _ => new Router("one"))));
        errors.Catch("Two codecs", static () => Register(static services => services.AddBatchKit().UseJson(ErrorJson.Default).UseJson(ErrorJson.Default)));
        errors.Catch("A frame key that is too short", static () => _ = new FrameSigner(new byte[8]));
    }

    private static void CollectRouting(ErrorCollector errors)
    {
        errors.Catch("Two routes of one name", static () => _ = new OutputBuffer([new OutputRoute("one", new CollectingTransport()), new OutputRoute("one", new CollectingTransport())], new Router("one")));
        errors.Catch("A router that names no route", static () => WriteOver(new Router()));
        errors.Catch("A router that names an unknown route", static () => WriteOver(new Router("other")));
    }

    private static async Task CollectWritesAsync(ErrorCollector errors)
    {
        await using var output = new OutputBuffer(new CollectingTransport(), new OutputBufferOptions { MaxMessageBytes = 1000 });
        await using var narrow = new OutputBuffer(new CollectingTransport(maxMessageBytes: 100));
        errors.Catch("A default handle", () => output.Write(default, "x"u8));
        errors.Catch("A handle with a long name", static () => OutputHandle.Named(new string('n', 70_000)));
        errors.Catch("A message that is too large for the buffer", () => output.Write(Room, new byte[2000]));
        errors.Catch("A message that is too large for the transport", () => narrow.Write(Room, new byte[200]));
        errors.Catch("A header with a long text", () => output.Write(Room, "x"u8, new MessageHeader { Key = new string('k', 70_000) }));
        errors.Catch("A header of an unknown kind", () => output.Write(Room, "x"u8, new MessageHeader { Kind = (MessageKind)9 }));
        errors.Catch("An encoder that counts wrongly", () => output.Write(Room, 10, 0, static (destination, _) => destination.Length + 1));
        errors.Catch("An encoder that writes to a buffer", () => output.Write(Room, 10, output, static (_, inner) =>
        {
            inner!.Write(Room, "x"u8);
            return 0;
        }));
        errors.Catch("A scope with a limit of zero", () => output.BeginBufferingScope(Room, TimeSpan.Zero).Dispose());
        await CollectFullAsync(errors);
    }

    private static async Task CollectFullAsync(ErrorCollector errors)
    {
        var options = new OutputBufferOptions { MaxBufferedBytes = 1024, MaxMessageBytes = 512, Overflow = OverflowPolicy.Fail };
        var output = new OutputBuffer(new CollectingTransport(), options);
        var scope = output.BeginBufferingScope(Room);
        errors.Catch("A full buffer", () => Fill(output));
        await errors.CatchAsync("A full buffer that does not wait", async () => await output.WriteAsync(Room, new byte[500]));
        scope.Dispose();
        await output.DisposeAsync();
        errors.Catch("A write to a disposed buffer", () => output.Write(Room, "x"u8));
        errors.Catch("A scope on a disposed buffer", () => output.BeginBufferingScope(Room).Dispose());
        errors.Catch("An ambient scope on a disposed buffer", () => output.BeginBufferingScope().Dispose());
    }

    private static async Task CollectLossAsync(ErrorCollector errors)
    {
        var refusing = new ScriptedTransport(new CollectingTransport());
        refusing.RefuseWhere(static _ => true);
        await using var output = new OutputBuffer(refusing);
        await errors.CatchAsync("Messages that the transport refused", async () =>
        {
            output.Write(Room, "x"u8);
            // The flush of all handles reports only what it waited for, which may have been refused before.
            await output.FlushAsync(Room);
        });
        var given = new ManualTimeProvider();
        var late = new OutputBuffer(new ScriptedTransport(new CollectingTransport()).Fail(100, new IOException("The broker is away.")), new OutputBufferOptions { DeliveryTimeout = TimeSpan.FromSeconds(1) }, timeProvider: given);
        late.Write(Room, "x"u8);
        var flushed = late.FlushAsync().AsTask();
        await PassTimeUntilAsync(given, flushed);
        await errors.CatchAsync("Messages that could not be sent in time", () => flushed);
        // It may still pause before its next attempt.
        await PassTimeUntilAsync(given, late.DisposeAsync().AsTask());
        var frames = new BatchReceiver(new CollectingTransport());
        await errors.CatchAsync("Bytes that are no frame", async () => await frames.ReceiveAsync("hello"u8.ToArray(), CancellationToken.None));
    }

    private static Task PassTimeUntilAsync(ManualTimeProvider clock, Task end) => Until.TrueAsync(() =>
    {
        clock.Advance(TimeSpan.FromSeconds(1));
        return end.IsCompleted;
    });

    private static async Task CollectTypedAsync(ErrorCollector errors)
    {
        var codec = new JsonMessageCodec(ErrorJson.Default);
        var dispatcher = new MessageDispatcher(codec).On<ErrorLine>(static (_, _, _) => ValueTask.CompletedTask);
        errors.Catch("Two handlers for one type", () => dispatcher.On<ErrorLine>(static (_, _, _) => ValueTask.CompletedTask));
        errors.Catch("A type that the JSON context does not know", () => codec.Encode(DateTime.UnixEpoch, new System.Buffers.ArrayBufferWriter<byte>()));
        await errors.CatchAsync("A message without a type", () => DispatchAsync(dispatcher, header: null));
        await errors.CatchAsync("A message of a type without a handler", () => DispatchAsync(dispatcher, new MessageHeader { Type = "Other" }));
        await errors.CatchAsync("A message that can't be decoded", () => DispatchAsync(dispatcher, codec.GetHeader<ErrorLine>()));
    }

    private static Task DispatchAsync(MessageDispatcher dispatcher, MessageHeader? header) =>
        dispatcher.SendAsync(new[] { MessageBatch.Create(Room, new ProducerId(1, 1, 0), 1, new BatchMessage("no JSON"u8.ToArray(), header)) }, CancellationToken.None).AsTask();

    private static void Fill(OutputBuffer output)
    {
        for (var messages = 0; messages < 10; messages++)
            output.Write(Room, new byte[200]);
    }

    private static void WriteOver(Router router)
    {
        var output = new OutputBuffer([new OutputRoute("one", new CollectingTransport()), new OutputRoute("two", new CollectingTransport())], router);
        output.Write(Room, "x"u8);
    }

    private static CollectingTransport Transport(IServiceProvider services) => new();

    private static void Register(Action<IServiceCollection> register) => register(new ServiceCollection());

    private static async Task StartAsync(Action<IServiceCollection> register)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        register(builder.Services);
        using var host = builder.Build();
        await host.StartAsync();
    }

    private sealed class Router(params string[] routes) : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => [.. routes];
    }
}

/// <summary>A message of these tests.</summary>
internal sealed record ErrorLine(string Text);

[JsonSerializable(typeof(ErrorLine))]
internal sealed partial class ErrorJson : JsonSerializerContext;
