using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The application's own messages for exchanges that do not exist, one after another. The broker closes the channel over each.</summary>
public sealed class MissingExchangeTests(RabbitMqFixture fixture)
{
    private const string Key = "1";

    private static readonly TimeSpan Hour = TimeSpan.FromHours(1);

    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public async Task Long_after_connecting_each_of_many_is_refused_at_its_first_retry()
    {
        await using var sender = await ConnectAsync(await fixture.GetAsync());
        _clock.Advance(Hour);

        for (var exchange = 0; exchange < 3; exchange++)
        {
            await AssertKeptAsync(sender, $"none-{exchange}");
            await AssertRefusedAsync(sender, $"none-{exchange}");
        }
    }

    [Fact]
    public async Task Long_after_connecting_a_message_without_a_queue_is_refused_behind_one_without_an_exchange()
    {
        await using var sender = await ConnectAsync(await fixture.GetAsync());
        _clock.Advance(Hour);

        await AssertKeptAsync(sender, "none");

        await AssertRefusedAsync(sender, exchange: "");
    }

    [Fact]
    public async Task Shortly_after_connecting_one_is_kept_until_the_time_is_over()
    {
        await using var sender = await ConnectAsync(await fixture.GetAsync());

        await AssertKeptAsync(sender, "none");
        await AssertKeptAsync(sender, "none");
        _clock.Advance(Hour);

        await AssertRefusedAsync(sender, "none");
    }

    [Fact]
    public async Task One_that_took_messages_and_is_deleted_is_kept_and_takes_messages_again()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        var exchange = $"{options.Prefix}.direct";
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await probe.ListenAsync(options, Key);
        await using var sender = await ConnectAsync(server);
        await SendAsync(sender, exchange).WithinDeadline();
        _clock.Advance(Hour);

        await probe.DeleteExchangeAsync(options);
        await AssertKeptAsync(sender, exchange);
        await AssertKeptAsync(sender, exchange);
        var queue = await probe.ListenAsync(options, Key);
        await SendAsync(sender, exchange).WithinDeadline();

        Assert.Equal(1u, await probe.CountAsync(queue));
    }

    private async Task<RabbitMqMessageSender> ConnectAsync(RabbitMqServer server)
    {
        var sender = new RabbitMqMessageSender(RabbitMqSome.Options(server), _clock, NullLogger.Instance, metrics: null);
        Assert.Null(await sender.FindFaultAsync(CancellationToken.None).WithinDeadline());
        return sender;
    }

    private static Task SendAsync(RabbitMqMessageSender sender, string exchange) =>
        sender.SendAsync(Some.Connection(), new RabbitMqMessage(exchange, Key, Some.Bytes("a")), CancellationToken.None).AsTask();

    private static Task<IOException> AssertKeptAsync(RabbitMqMessageSender sender, string exchange) => Assert.ThrowsAsync<IOException>(() => SendAsync(sender, exchange).WithinDeadline());

    private static Task<MessageRefusedException> AssertRefusedAsync(RabbitMqMessageSender sender, string exchange) =>
        Assert.ThrowsAsync<MessageRefusedException>(() => SendAsync(sender, exchange).WithinDeadline());
}
