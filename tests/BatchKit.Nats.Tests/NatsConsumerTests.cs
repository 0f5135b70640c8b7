using BatchKit.Testing;
using BatchKit.TestServers.Nats;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using NATS.Client.Core;
using NATS.Client.JetStream;

namespace BatchKit.Nats.Tests;

/// <summary>Receivers whose consumer the server no longer has.</summary>
public sealed class NatsConsumerTests(NatsFixture nats)
{
    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public async Task A_receiver_whose_consumer_was_deleted_creates_it_again(bool isStreamDeleted, bool isFrameHeld)
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 2);
        await sender.WriteAsync(receiver.Connection, "before");
        await receiver.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        var held = isFrameHeld ? receiver.NextHop.Stall() : null;
        if (held is not null)
        {
            await sender.WriteAsync(receiver.Connection, "held");
            await held.EnteredAsync();
        }

        await using var connection = new NatsConnection(new NatsOpts { Url = options.Url! });
        var jetStream = new NatsJSContext(connection);
        if (isStreamDeleted)
            await jetStream.DeleteStreamAsync(options.Prefix);
        else
            await jetStream.DeleteConsumerAsync(options.Prefix, "node-2");
        held?.Release();

        await ArrivesAgainAsync(sender, receiver);
    }

    [Fact]
    [Trait("Lane", "faults: NATS is killed")]
    public async Task A_receiver_goes_on_when_the_server_comes_back_without_its_data()
    {
        Assert.SkipUnless(NatsServer.WhyMissing is null, NatsServer.WhyMissing ?? "");
        await using var server = await NatsServer.StartOwnAsync();
        var options = NatsFixture.OptionsFor(server.Address);
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 2);
        await sender.WriteAsync(receiver.Connection, "before");
        await receiver.Arrived.WaitForMessagesAsync(1).WithinDeadline();

        await server.KillAsync();
        server.DeleteData();
        await server.StartAsync();

        await ArrivesAgainAsync(sender, receiver);
    }

    private static async Task ArrivesAgainAsync(NatsNode sender, NatsNode receiver)
    {
        try
        {
            await WriteUntilOneArrivesAsync(sender, receiver);
        }
        catch (TimeoutException late)
        {
            throw new TimeoutException($"The sender says: {(await sender.GetHealthAsync()).Description} The receiver says: {(await receiver.GetHealthAsync()).Description}", late);
        }

        await receiver.WaitUntilHealthyAsync();
        await sender.WriteAsync(receiver.Connection, "last");
        await Until.TrueAsync(() => receiver.Arrived.TextsFor(receiver.Connection).Contains("last"));
    }

    // The server keeps no line while there is no consumer.
    private static Task WriteUntilOneArrivesAsync(NatsNode sender, NatsNode receiver)
    {
        var line = 0;
        return Until.TrueAsync(() =>
        {
            sender.Output.Write(receiver.Connection, $"after {++line}");
            return receiver.Arrived.TextsFor(receiver.Connection).Any(static text => text.StartsWith("after", StringComparison.Ordinal));
        });
    }
}
