using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Dolist;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.JetStream.Models;

namespace BatchKit.Benchmarks.OverNats;

/// <summary>A publisher to a stream and a consumer that acknowledges, on a connection each, with the bare client.</summary>
internal sealed class NatsEnds : IDolistEnds
{
    private readonly NatsConnection _sender;
    private readonly NatsConnection _receiver;
    private readonly CancellationTokenSource _stopping = new();
    private readonly string _subject;
    private Task _consuming = Task.CompletedTask;

    private NatsEnds(NatsConnection sender, NatsConnection receiver, string subject)
    {
        (_sender, _receiver, _subject) = (sender, receiver, subject);
        JetStream = new NatsJSContext(sender);
    }

    public Arrival Arrival { get; } = new();

    public NatsJSContext JetStream { get; }

    public static async Task<NatsEnds> StartAsync()
    {
        var settings = new NatsOpts { Url = (await Broker.GetNatsAsync()).ToString() };
        var name = $"benchmark-{Guid.NewGuid():N}";
        var ends = new NatsEnds(new NatsConnection(settings), new NatsConnection(settings), $"{name}.lines");
        await ends.JetStream.CreateStreamAsync(new StreamConfig(name, [$"{name}.*"]) { Retention = StreamConfigRetention.Interest });
        var consumer = await new NatsJSContext(ends._receiver).CreateOrUpdateConsumerAsync(name, new ConsumerConfig("reader"));
        ends._consuming = Task.Run(() => ends.ConsumeAsync(consumer));
        return ends;
    }

    public async ValueTask PublishAsync(byte[] bytes) => (await JetStream.PublishAsync(_subject, bytes, NatsRawSerializer<byte[]>.Default)).EnsureSuccess();

    /// <summary>Publishes one message; the task ends when it is on its way, and its result waits for the stream's answer.</summary>
    public ValueTask<NatsJSPublishConcurrentFuture> BeginPublishAsync(byte[] line) => JetStream.PublishConcurrentAsync(_subject, line, NatsRawSerializer<byte[]>.Default);

    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync();
        await _consuming.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _receiver.DisposeAsync();
        await _sender.DisposeAsync();
        _stopping.Dispose();
    }

    private async Task ConsumeAsync(INatsJSConsumer consumer)
    {
        await foreach (var message in consumer.ConsumeAsync(NatsRawSerializer<byte[]>.Default, cancellationToken: _stopping.Token))
        {
            Arrival.Add(message.Data);
            await message.AckAsync();
        }
    }
}
