using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>
/// In whichever order a host stops its buffer, the services that write last words and the receiver whose input is answered: what is accepted arrives, what is refused is an error
/// that says so, and input is answered or stays at the broker.
/// </summary>
public sealed class StopOrderTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    private const int Near = 3;
    private const int Far = 2;
    private const int LeastAnswers = 20;

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    /// <summary>Orders of registration, whose reverse is the order of the stops: b is the buffer, w a writer, r a receiver. Over RabbitMQ all of them, over the others those that differ most.</summary>
    public static IEnumerable<TheoryDataRow<string, string, bool>> Orders =>
    [
        .. from order in (string[])["bwr", "brw", "wbr", "rbw", "wrb", "rwb"]
           from concurrently in (bool[])[false, true]
           select new TheoryDataRow<string, string, bool>(BrokerPath.RabbitMq, order, concurrently),
        .. from transport in SharedBrokers.All
           where transport != BrokerPath.RabbitMq
           from row in ((string Order, bool Concurrently)[])[("bwr", false), ("rwb", false), ("bwr", true)]
           select new TheoryDataRow<string, string, bool>(transport, row.Order, row.Concurrently),
    ];

    [Theory]
    [MemberData(nameof(Orders))]
    public Task What_a_stopping_host_accepts_arrives_and_what_it_refuses_is_an_error(string transport, string order, bool concurrently) => _brokers.UseAsync(transport, async path =>
    {
        var heard = new CollectingTransport();
        var far = await PathHost.StartReceiverAsync(path, Far, heard, writesFor: Near);
        var asking = far.Services.GetRequiredService<OutputBuffer>();
        var (words, questions, asked) = (OutputHandle.Connection(Far, 1), OutputHandle.Connection(Near, 1), 0);
        var host = Build(path, order, concurrently, words);
        await PathHost.StartAsync(host);
        var (writer, answers, output) = (host.Services.GetRequiredService<LastWords>(), host.Services.GetRequiredService<Answers>(), host.Services.GetRequiredService<OutputBuffer>());
        while (answers.Given.Count < LeastAnswers)
            await AskAsync(asking, questions, asked++);

        var stop = host.StopAsync();
        while (!stop.IsCompleted)
            await AskAsync(asking, questions, asked++);
        await stop.WithinDeadline();

        AssertLaw(output.GetStatistics(), writer.Accepted.Count + answers.Given.Count);
        AssertRefusals(writer, order, concurrently);
        await ((IAsyncDisposable)host).DisposeAsync();
        await AssertAnsweredOrKeptAsync(path, asked, answers);
        await heard.WaitForMessagesAsync(writer.Accepted.Count + answers.Given.Count);
        Assert.Equal(writer.Accepted, heard.TextsFor(words));
        Assert.Equal(answers.Given.Order(), heard.TextsFor(answers.Handle).Select(Number).Order());
        await PathHost.StopAsync(far);
    });

    private static IHost Build(BrokerPath path, string order, bool concurrently, OutputHandle words) => PathHost.Build(services =>
    {
        services.Configure<HostOptions>(options => (options.ServicesStartConcurrently, options.ServicesStopConcurrently) = (concurrently, concurrently));
        services.AddSingleton(provider => new LastWords(provider.GetRequiredService<OutputBuffer>(), words));
        services.AddSingleton(provider => new Answers(provider.GetRequiredService<OutputBuffer>(), OutputHandle.Connection(Far, 2)));
        foreach (var part in order)
        {
            if (part == 'b')
                services.AddBatchKit(options => options.Node = Near).SendTo(path, Far);
            else if (part == 'r')
                services.AddBatchKit("input", options => options.Node = Near).ReceiveFrom(path, Near, static provider => provider.GetRequiredService<Answers>());
            else
                services.AddHostedService(static provider => provider.GetRequiredService<LastWords>());
        }
    });

    private static async Task AskAsync(OutputBuffer asking, OutputHandle questions, int number)
    {
        asking.Write(questions, Some.Bytes($"{number}"));
        await asking.FlushAsync().WithinDeadline();
    }

    private static void AssertLaw(OutputStatistics statistics, long accepted)
    {
        Assert.Equal((accepted, accepted), (statistics.AcceptedMessages, statistics.AcknowledgedMessages));
        Assert.Equal(0, statistics.PendingMessages);
    }

    private static void AssertRefusals(LastWords writer, string order, bool concurrently)
    {
        // Before any service stops, the buffer accepts everything; after all have stopped, nothing. Between them the order decides, and with concurrent stops chance does.
        var all = Some.Lines(3 * LastWords.LinesPerStage);
        var stopsAfterWriter = order.IndexOf('b') < order.IndexOf('w');
        Assert.Equal(all, writer.Accepted.Concat(writer.Refused));
        Assert.InRange(writer.Accepted.Count, LastWords.LinesPerStage, 2 * LastWords.LinesPerStage);
        Assert.All(writer.Reasons, static reason => Assert.Contains("stopped", reason, StringComparison.Ordinal));
        if (!concurrently)
            Assert.Equal((stopsAfterWriter ? 2 : 1) * LastWords.LinesPerStage, writer.Accepted.Count);
    }

    /// <summary>Checks that each question was answered, or comes to the next receiver of the node, or both, as a frame does that the stop interrupted.</summary>
    private static async Task AssertAnsweredOrKeptAsync(BrokerPath path, int asked, Answers answers)
    {
        var kept = new CollectingTransport();
        var next = await PathHost.StartReceiverAsync(path, Near, kept);
        await Until.TrueAsync(() => kept.Texts.Select(Number).Concat(answers.Given).Distinct().Count() == asked);
        Assert.Equal(answers.Given.Order(), answers.Given);
        Assert.Equal(kept.Texts.Select(Number).Order(), kept.Texts.Select(Number));
        await PathHost.StopAsync(next);
    }

    private static int Number(string text) => int.Parse(text, CultureInfo.InvariantCulture);

    /// <summary>Writes lines before, during and after the stop of the hosted services.</summary>
    private sealed class LastWords(OutputBuffer output, OutputHandle handle) : IHostedLifecycleService
    {
        public const int LinesPerStage = 50;

        private int _lines;

        public List<string> Accepted { get; } = [];

        public List<string> Refused { get; } = [];

        public List<string> Reasons { get; } = [];

        public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StoppingAsync(CancellationToken cancellationToken) => WriteAsync();

        public Task StopAsync(CancellationToken cancellationToken) => WriteAsync();

        public Task StoppedAsync(CancellationToken cancellationToken) => WriteAsync();

        private async Task WriteAsync()
        {
            for (var line = 0; line < LinesPerStage; line++)
            {
                var text = $"line {_lines++}";
                try
                {
                    await output.WriteAsync(handle, Some.Bytes(text));
                    Accepted.Add(text);
                }
                catch (ObjectDisposedException stopped)
                {
                    Refused.Add(text);
                    Reasons.Add(stopped.Message);
                }

                await Task.Yield();
            }
        }
    }

    /// <summary>Answers each message of the input with its number. While the buffer refuses an answer, the message stays unacknowledged.</summary>
    private sealed class Answers(OutputBuffer output, OutputHandle handle) : IBatchTransport
    {
        public OutputHandle Handle { get; } = handle;

        public ConcurrentQueue<int> Given { get; } = new();

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            for (var index = 0; index < batches.Length; index++)
            {
                var question = TextOf(batches.Span[index]);
                await output.WriteAsync(Handle, Some.Bytes(question), cancellationToken: cancellationToken);
                Given.Enqueue(Number(question));
            }
        }

        private static string TextOf(MessageBatch batch)
        {
            Assert.Equal(1, batch.Count);
            return Encoding.UTF8.GetString(batch[0].Payload.Span);
        }
    }
}
