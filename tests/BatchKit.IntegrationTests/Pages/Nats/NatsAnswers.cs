using System.Collections.Concurrent;
using System.Globalization;
using NATS.Client.Core;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>Reads along what a node's receiver answers to the server: <c>+ACK</c>, <c>-NAK</c>, or <c>+WPI</c> for work in progress.</summary>
internal sealed class NatsAnswers : IAsyncDisposable
{
    private readonly NatsConnection _connection;
    private readonly ConcurrentQueue<(string Subject, string Text)> _answers = new();
    private readonly Task _reading;

    private NatsAnswers(NatsConnection connection, INatsSub<string> subscription)
    {
        _connection = connection;
        _reading = ReadAsync(subscription);
    }

    /// <summary>The most often that one frame was delivered: the subject of an answer is $JS.ACK, the stream, the consumer, and then that count.</summary>
    public int MostDeliveries => _answers.Max(static answer => int.Parse(answer.Subject.Split('.')[4], CultureInfo.InvariantCulture));

    public static async Task<NatsAnswers> ListenAsync(Uri server, int node)
    {
        var connection = new NatsConnection(new NatsOpts { Url = server.ToString() });
        var subscription = await connection.SubscribeCoreAsync<string>($"$JS.ACK.frames.node-{node}.>");
        await connection.PingAsync();
        return new NatsAnswers(connection, subscription);
    }

    public Task WaitForAsync(string answer, int count) =>
        Until.TrueAsync(() => _answers.Count(each => each.Text.StartsWith(answer, StringComparison.Ordinal)) >= count, $"{count} {answer}");

    public async ValueTask DisposeAsync()
    {
        await _connection.DisposeAsync();
        await _reading.WithinDeadline();
    }

    private async Task ReadAsync(INatsSub<string> subscription)
    {
        await foreach (var message in subscription.Msgs.ReadAllAsync())
            _answers.Enqueue((message.Subject, message.Data ?? ""));
    }
}
