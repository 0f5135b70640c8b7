using System.Globalization;
using System.Text;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The whole way of numbered messages: buffer, transport, queue, receiver, handler. Its settings are those of a test that breaks the server.</summary>
internal sealed class QueueWay : IAsyncDisposable
{
    private const int MessagesPerScope = 50;

    private readonly NpgsqlDataSource _sending;
    private readonly NpgsqlDataSource _receiving;
    private long _written;

    private QueueWay(NpgsqlDataSource sending, NpgsqlDataSource receiving, PostgresOptions sendingOptions, PostgresQueueReceiverOptions receivingOptions)
    {
        _sending = sending;
        _receiving = receiving;
        Handle = OutputHandle.Named(receivingOptions.Queue);
        Transport = new PostgresQueueTransport(sending, sendingOptions);
        Output = new OutputBuffer(Transport, new OutputBufferOptions
        {
            SendTimeout = TimeSpan.FromSeconds(20),
            DeliveryTimeout = TimeSpan.FromMinutes(30),
            RetryDelay = TimeSpan.FromMilliseconds(20),
            MaxRetryDelay = TimeSpan.FromMilliseconds(200),
        });
        Receiver = new PostgresQueueReceiver(receiving, receivingOptions, Handled);
    }

    public OutputHandle Handle { get; }

    public PostgresQueueTransport Transport { get; }

    public OutputBuffer Output { get; }

    public PostgresQueueReceiver Receiver { get; }

    public NumberedHandler Handled { get; } = new();

    /// <summary>How many messages were written.</summary>
    public long Written => Interlocked.Read(ref _written);

    /// <summary>Starts one in a schema of the server's.</summary>
    public static async Task<QueueWay> StartAsync(
        PostgresServer server, string schema, Action<PostgresQueueReceiverOptions>? receiving = null, Action<PostgresOptions>? sending = null)
    {
        var receivingOptions = new PostgresQueueReceiverOptions
        {
            Schema = schema,
            Queue = "way",
            Concurrency = 4,
            // What a lost connection had claimed unseen comes back soon, and is not buried for having been hit often.
            ClaimTimeLimit = TimeSpan.FromSeconds(2),
            MaxAttempts = 1000,
            ReconnectDelay = TimeSpan.FromMilliseconds(20),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(200),
        };
        receiving?.Invoke(receivingOptions);
        var sendingOptions = new PostgresOptions { Schema = schema };
        sending?.Invoke(sendingOptions);
        var way = new QueueWay(NpgsqlDataSource.Create(server.ConnectionString), NpgsqlDataSource.Create(server.ConnectionString), sendingOptions, receivingOptions);
        await way.Receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return way;
    }

    /// <summary>Writes so many messages in one scope.</summary>
    /// <returns>When they are acknowledged.</returns>
    public async Task WriteAsync(int count, int bytes = 0)
    {
        await using var scope = Output.BeginBufferingScope(Handle);
        for (var message = 0; message < count; message++)
            Output.Write(Handle, Payload(Interlocked.Increment(ref _written), bytes));
    }

    /// <summary>Writes scope after scope, each awaited until it is acknowledged, until told to stop.</summary>
    public async Task WriteUntilAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
            await WriteAsync(MessagesPerScope);
    }

    /// <summary>Waits until so many messages more were handled.</summary>
    public Task WaitForMoreAsync(int count) => Handled.WaitForCountAsync(Handled.Count + count);

    /// <summary>Waits until the receiver says why it can't receive, with a text in it.</summary>
    public Task WaitForFaultAsync(string text) => Until.TrueAsync(() => Receiver.Fault?.Contains(text, StringComparison.Ordinal) == true);

    /// <summary>Waits until a send more has failed.</summary>
    public Task WaitForFailedSendAsync()
    {
        var before = Output.GetStatistics().FailedSends;
        return Until.TrueAsync(() => Output.GetStatistics().FailedSends > before);
    }

    /// <summary>Waits until the receiver receives.</summary>
    public Task WaitUntilReceivingAsync() => Until.TrueAsync(() => Receiver.Fault is null);

    /// <summary>Waits for all that was written, and checks that it was acknowledged, handled, and stored once.</summary>
    public async Task AssertNothingLostOrStoredTwiceAsync()
    {
        await Handled.WaitForCountAsync(Written);
        var statistics = Output.GetStatistics();
        Assert.Equal((Written, Written, 0, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.FailedMessages));
        Assert.Equal(Written, Handled.Count);
        Assert.Empty(Handled.StoredTwice);
    }

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
        await Receiver.DisposeAsync();
        await _sending.DisposeAsync();
        await _receiving.DisposeAsync();
    }

    private static byte[] Payload(long number, int bytes)
    {
        var text = Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{number} "));
        if (bytes <= text.Length)
            return text;
        // Random, so that the server's compression can't make it small.
        var payload = Some.RandomBytes(bytes, seed: (int)number);
        text.CopyTo(payload, index: 0);
        return payload;
    }
}
