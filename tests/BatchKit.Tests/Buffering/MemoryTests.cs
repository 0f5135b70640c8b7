using System.Diagnostics.Metrics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using BatchKit.Testing;
using BatchKit.Tests.Support;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

/// <summary>What must not be kept alive, by a buffer, by a thread or by an application's meters.</summary>
[Collection(nameof(MeasuresMemory))]
public sealed class MemoryTests
{
    private static readonly AsyncLocal<byte[]?> OfMaker = new();

    [Fact]
    public async Task Settled_batches_keep_no_array_of_a_large_message_alive()
    {
        var transport = new ArrayCollectingTransport();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxMessageBytes = 4 << 20 });

        WriteInOneScope(buffer, handles: 10, bytes: 3 << 20);
        await buffer.FlushAsync().WithinDeadline();
        WriteInOneScope(buffer, handles: 10, bytes: 3 << 20);
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(20, transport.Arrays.Count);
        Assert.Equal(0, transport.CountAlive());
    }

    [Fact]
    public async Task Settled_batches_keep_no_rented_array_alive_beside_those_of_the_array_pool()
    {
        var transport = new ArrayCollectingTransport();
        await using var buffer = new OutputBuffer(transport);

        WriteInOneScope(buffer, handles: 800, bytes: 60_000);
        await buffer.FlushAsync().WithinDeadline();

        // The shared pool keeps 32 arrays of a size for each processor, and one for each thread.
        Assert.Equal(800, transport.Arrays.Count);
        Assert.InRange(transport.CountAlive(), 0, 400);
    }

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task The_handle_table_gives_its_memory_back_after_a_burst()
    {
        var clock = new ManualTimeProvider();
        await using var buffer = new OutputBuffer(new CountingTransport(), new OutputBufferOptions { MaxIdleHandles = int.MaxValue }, timeProvider: clock);
        Use(buffer, handles: 10_000);
        clock.Advance(TimeSpan.FromMinutes(3));
        var before = GC.GetTotalMemory(forceFullCollection: true);

        Use(buffer, handles: 500_000);
        clock.Advance(TimeSpan.FromMinutes(3));

        var grown = GC.GetTotalMemory(forceFullCollection: true) - before;
        Assert.Equal(0, buffer.GetStatistics().LiveHandles);
        Assert.True(grown < 1_500_000, $"The heap grew by {grown} bytes.");
    }

    [Fact]
    public async Task Closed_ambient_scopes_with_a_long_limit_leave_nothing_in_memory()
    {
        await using var buffer = new OutputBuffer(new CountingTransport(), timeProvider: new ManualTimeProvider());
        CloseAmbientScopes(buffer, scopes: 1000);
        var before = GC.GetTotalMemory(forceFullCollection: true);

        CloseAmbientScopes(buffer, scopes: 100_000);

        var grown = GC.GetTotalMemory(forceFullCollection: true) - before;
        Assert.True(grown < 1_500_000, $"The heap grew by {grown} bytes.");
    }

    [Fact]
    public async Task Handles_that_were_given_up_leave_nothing_in_memory_though_their_scopes_had_a_long_limit()
    {
        var clock = new ManualTimeProvider();
        await using var buffer = new OutputBuffer(new CountingTransport(), new OutputBufferOptions { MaxIdleHandles = int.MaxValue }, timeProvider: clock);
        Use(buffer, handles: 1000, TimeSpan.FromHours(1));
        clock.Advance(TimeSpan.FromMinutes(3));
        var before = GC.GetTotalMemory(forceFullCollection: true);

        Use(buffer, handles: 50_000, TimeSpan.FromHours(1));
        clock.Advance(TimeSpan.FromMinutes(3));

        var grown = GC.GetTotalMemory(forceFullCollection: true) - before;
        Assert.Equal(0, buffer.GetStatistics().LiveHandles);
        Assert.True(grown < 1_500_000, $"The heap grew by {grown} bytes.");
    }

    [Fact]
    public async Task A_disposed_buffer_leaves_no_batches_with_the_threads_that_wrote_to_it()
    {
        var before = GC.GetTotalMemory(forceFullCollection: true);

        await UseAndDisposeAsync();

        var grown = GC.GetTotalMemory(forceFullCollection: true) - before;
        Assert.True(grown < 1_500_000, $"The heap grew by {grown} bytes.");
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_applications_meters_keep_no_buffer_alive(bool isDisposed)
    {
        using var factory = new KeepingMeterFactory();

        var buffer = await MakeAsync(factory, isDisposed);

        Assert.True(IsCollected(buffer));
        using var listener = new MeterListener { InstrumentPublished = static (instrument, itself) => itself.EnableMeasurementEvents(instrument) };
        listener.Start();
        listener.RecordObservableInstruments();
    }

    [Fact]
    public async Task A_buffers_timers_keep_nothing_of_their_makers_context_alive()
    {
        var (buffer, ofMaker) = MakeInContext();

        await using (buffer)
            Assert.True(IsCollected(ofMaker));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void WriteInOneScope(OutputBuffer buffer, int handles, int bytes)
    {
        var payload = new byte[bytes];
        using (buffer.BeginBufferingScope())
        {
            for (var number = 1; number <= handles; number++)
                buffer.Write(OutputHandle.Connection(node: 1, number), payload);
        }
    }

    private static void CloseAmbientScopes(OutputBuffer buffer, int scopes)
    {
        for (var count = 0; count < scopes; count++)
        {
            using (buffer.BeginBufferingScope(TimeSpan.FromHours(1)))
                buffer.Write(OutputHandle.Connection(node: 1, sequence: 1), "line"u8);
        }
    }

    private static void Use(OutputBuffer buffer, int handles, TimeSpan? limit = null)
    {
        for (var number = 1; number <= handles; number++)
        {
            var handle = OutputHandle.Connection(node: 1, number);
            using (limit is { } maxHold ? buffer.BeginBufferingScope(handle, maxHold) : buffer.BeginBufferingScope(handle))
                buffer.Write(OutputHandle.Connection(node: 1, number), "line"u8);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static async Task UseAndDisposeAsync()
    {
        await using var buffer = new OutputBuffer(new CountingTransport());
        using (buffer.BeginBufferingScope())
            Use(buffer, handles: 10_000);
        Use(buffer, handles: 10);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static async Task<WeakReference> MakeAsync(IMeterFactory factory, bool isDisposed)
    {
        // A timer of the system's clock would keep a buffer that no one disposed.
        var buffer = new OutputBuffer(new CountingTransport(), timeProvider: new ManualTimeProvider(), meterFactory: factory);
        buffer.Write(Some.Connection(), "line");
        if (isDisposed)
            await buffer.DisposeAsync();
        return new WeakReference(buffer);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static (OutputBuffer Buffer, WeakReference OfMaker) MakeInContext()
    {
        OfMaker.Value = new byte[1000];
        var ofMaker = new WeakReference(OfMaker.Value);
        var buffer = new OutputBuffer(new CountingTransport(), new OutputBufferOptions { Linger = TimeSpan.FromMilliseconds(1) });
        buffer.Write(Some.Connection(), "line");
        using (buffer.BeginBufferingScope(TimeSpan.FromHours(1)))
            buffer.Write(Some.Connection(), "line");
        OfMaker.Value = null;
        return (buffer, ofMaker);
    }

    // Some roots of a debug build, and of an asynchronous method, go only a little later.
    private static bool IsCollected(WeakReference reference)
    {
        for (var count = 0; count < 10 && reference.IsAlive; count++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }

        return !reference.IsAlive;
    }

    private sealed class ArrayCollectingTransport : IBatchTransport
    {
        public List<WeakReference> Arrays { get; } = [];

        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
            {
                if (MemoryMarshal.TryGetArray(batch.Payload, out var segment))
                    Arrays.Add(new WeakReference(segment.Array));
            }

            return ValueTask.CompletedTask;
        }

        public int CountAlive()
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
            GC.Collect();
            return Arrays.Count(static array => array.IsAlive);
        }
    }

    private sealed class KeepingMeterFactory : IMeterFactory
    {
        private readonly List<Meter> _meters = [];

        public Meter Create(MeterOptions options)
        {
            var meter = new Meter(options);
            _meters.Add(meter);
            return meter;
        }

        public void Dispose()
        {
            foreach (var meter in _meters)
                meter.Dispose();
        }
    }
}
