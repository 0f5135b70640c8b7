using System.Collections.Concurrent;
using System.Threading.Channels;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>A broker in this process: each node gets each frame, in one order, as over a fan-out exchange.</summary>
public sealed class FrameBus
{
    private readonly ConcurrentDictionary<Channel<byte[]>, bool> _queues = new();
    private int _frames;

    /// <summary>How many frames were published.</summary>
    public int Frames => Volatile.Read(ref _frames);

    public void Join(BatchKitBuilder builder)
    {
        builder.UseFrameTransport(_ => PublishAsync).AddFrameReceiver(static services => services.GetRequiredService<SignalRTransport>());
        builder.Services.AddHostedService(services => new Reader(this, services.GetRequiredService<FrameReceiver>()));
    }

    private ValueTask PublishAsync(OutgoingFrame frame, CancellationToken cancellationToken)
    {
        Interlocked.Increment(ref _frames);
        foreach (var queue in _queues.Keys)
            queue.Writer.TryWrite(frame.Bytes.ToArray());
        return default;
    }

    private sealed class Reader(FrameBus bus, FrameReceiver receiver) : BackgroundService
    {
        private readonly Channel<byte[]> _queue = Channel.CreateUnbounded<byte[]>();

        public override Task StartAsync(CancellationToken cancellationToken)
        {
            bus._queues[_queue] = true;
            return base.StartAsync(cancellationToken);
        }

        protected override async Task ExecuteAsync(CancellationToken stoppingToken)
        {
            await foreach (var frame in _queue.Reader.ReadAllAsync(stoppingToken))
                await receiver.ReceiveAsync(frame, stoppingToken);
        }
    }
}
