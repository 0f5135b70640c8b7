using BatchKit.Transports;
using FirstTransport;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.TrimSmoke;

/// <summary>Uses what a program of its own would, where trimming could have cut it away; throws when it did.</summary>
internal static class Smoke
{
    private static readonly OutputHandle Player = OutputHandle.Connection(node: 0, sequence: 1);

    public static async Task BufferAloneAsync()
    {
        var transport = new CountingTransport();
        await using var output = new OutputBuffer(transport);
        await using (output.BeginBufferingScope(Player))
        {
            for (var line = 0; line < 1000; line++)
                output.Write(Player, $"line {line}\r\n");
        }

        Require(transport is { Batches: 1, Messages: 1000 }, $"A scope sent {transport.Batches} batches with {transport.Messages} messages.");
    }

    public static async Task OwnSocketsAsync()
    {
        var gone = OutputHandle.Connection(node: 0, sequence: 2);
        using var stream = new MemoryStream();
        await using var output = new OutputBuffer(new StreamTransport(new() { [Player] = stream }));

        output.Write(gone, "nobody hears this\r\n");
        output.Write(Player, $"{1000} coins\r\n");
        await output.FlushAsync(Player);

        Require(stream.Length == "1000 coins\r\n".Length, $"{stream.Length} bytes arrived.");
        Require(output.GetStatistics() is { AcknowledgedMessages: 1, FailedMessages: 1 }, output.GetStatistics().ToString());
    }

    public static async Task CancelledSocketAsync()
    {
        var other = OutputHandle.Connection(node: 0, sequence: 2);
        using var stream = new MemoryStream();
        using var cancelled = new CancelledOnceStream();
        await using var output = new OutputBuffer(new StreamTransport(new() { [Player] = stream, [other] = cancelled }));

        // A scope is one send, in the order of its first writes.
        await using (output.BeginBufferingScope())
        {
            output.Write(Player, "for the first\r\n");
            output.Write(other, "for the second\r\n");
        }

        Require(stream.Length == "for the first\r\n".Length, $"{stream.Length} bytes arrived at the first.");
        Require(cancelled.Length == "for the second\r\n".Length, $"{cancelled.Length} bytes arrived at the second.");
    }

    public static async Task HostedAsync()
    {
        var transport = new CountingTransport();
        var application = Host.CreateApplicationBuilder();
        application.Services.AddBatchKit(options => options.Node = 3).UseLocal(_ => transport);
        application.Services.AddBatchKit("audit").AddRoute("all", _ => transport);
        using var host = application.Build();
        await host.StartAsync();

        host.Services.GetRequiredService<IOutputBuffer>().Write(Player, ControlMessage.JoinGroup("room"));
        host.Services.GetRequiredKeyedService<IOutputBuffer>("audit").Write(OutputHandle.Named("log"), "joined");
        var health = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync();
        await host.StopAsync();

        Require(transport.Messages == 2, $"{transport.Messages} of 2 messages arrived before the stop ended.");
        Require(health.Entries.Count == 2 && health.Status == HealthStatus.Healthy, $"{health.Entries.Count} health checks said {health.Status}.");
    }

    public static async Task TypedAsync()
    {
        var sum = 0;
        var codec = new JsonMessageCodec(SmokeJson.Default);
        var dispatcher = new MessageDispatcher(codec).On<Coins>((_, coins, _) =>
        {
            sum += coins.Count;
            return default;
        });
        await using var output = new OutputBuffer(dispatcher);

        await using (output.BeginBufferingScope(Player))
        {
            new TypedOutput(output, codec).Write(Player, new Coins(40));
            new TypedOutput(output, codec).Write(Player, new Coins(2));
        }

        Require(sum == 42, $"{sum} of 42 coins arrived.");
    }

    public static async Task HandledAsync()
    {
        Purse.Sum = 0;
        var application = Host.CreateApplicationBuilder();
        application.Services.AddBatchKit(options => options.Node = 3)
            .UseJson(SmokeJson.Default)
            .UseFrameTransport(services => (frame, cancellationToken) => services.GetRequiredService<FrameReceiver>().ReceiveAsync(frame.Bytes, cancellationToken))
            .AddFrameReceiver<Purse>();
        using var host = application.Build();
        await host.StartAsync();

        host.Services.GetRequiredService<TypedOutput>().Write(Player, new Coins(42));
        await host.StopAsync();

        Require(Purse.Sum == 42, $"{Purse.Sum} of 42 coins were handled.");
    }

    public static async Task BadOptionsAsync()
    {
        var application = Host.CreateApplicationBuilder();
        application.Services.AddBatchKit(options => options.SendTimeout = TimeSpan.Zero).UseLocal(_ => new CountingTransport());
        using var host = application.Build();
        try
        {
            await host.StartAsync();
        }
        catch (OptionsValidationException exception) when (exception.Message.Contains(nameof(OutputBufferOptions.SendTimeout), StringComparison.Ordinal))
        {
            return;
        }

        throw new InvalidOperationException("A bad option did not stop the start.");
    }

    public static async Task ConfiguredAsync()
    {
        var application = Host.CreateApplicationBuilder();
        application.Configuration.AddInMemoryCollection([new("Game:MaxMessageBytes", "3"), new("Game:Linger", "00:00:00.5"), new("Game:Overflow", "fail")]);
        application.Services.AddBatchKit(application.Configuration.GetSection("Game")).UseLocal(_ => new CountingTransport());
        using var host = application.Build();
        await host.StartAsync();

        var options = host.Services.GetRequiredService<IOptions<OutputBufferOptions>>().Value;

        Require(options is { MaxMessageBytes: 3, Linger.TotalMilliseconds: 500, Overflow: OverflowPolicy.Fail }, "The configuration was not bound.");
        await host.StopAsync();
    }

    private static void Require(bool holds, string otherwise)
    {
        if (!holds)
            throw new InvalidOperationException(otherwise);
    }
}
