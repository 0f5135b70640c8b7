using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Keeps a telnet client's prompt last: a line that is sent while it shows starts below it, and the prompt is sent again.</summary>
internal sealed class TelnetPrompts(TimeProvider timeProvider)
{
    private static readonly byte[] NewLine = "\r\n"u8.ToArray();

    // Some lines get no prompt. After this time without a line or a prompt no answer is expected. A long answer that is sent line by line over a broker takes seconds.
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(5);

    // One prompt may answer several lines. After it the answers to the others follow soon, or there are none.
    private static readonly TimeSpan NextAnswerLimit = TimeSpan.FromSeconds(1);

    // Guards all fields: the reader notes lines while sends add output.
    private readonly Lock _lock = new();
    private byte[] _prompt = [];
    private bool _isShown;
    private int _unansweredLines;
    private long _answerExpectedAt;
    private TimeSpan _answerLimit;

    /// <summary>Notes that the user ended a line: the cursor is below the prompt, and an answer will follow.</summary>
    public void NoteLine()
    {
        lock (_lock)
        {
            // Who types while the prompt shows has seen the answers to all earlier lines.
            _unansweredLines = _isShown ? 1 : _unansweredLines + 1;
            _isShown = false;
            (_answerExpectedAt, _answerLimit) = (timeProvider.GetTimestamp(), AnswerLimit);
        }
    }

    /// <summary>Adds one message to what the client gets. GMCP and MSDP do not come here, because they are not shown on the screen.</summary>
    /// <param name="connection">The client.</param>
    /// <param name="run">The message, encoded.</param>
    /// <param name="isPrompt">Whether it is a prompt.</param>
    /// <param name="composer">Gets the bytes.</param>
    /// <param name="tally">Counts them.</param>
    public void Add(ClientConnection connection, in OutputRun run, bool isPrompt, OutputComposer composer, ref DeliveryTally tally) =>
        composer.Add(connection, run, ref tally, Note(run, isPrompt) ? NewLine : []);

    /// <summary>Ends what the client gets in one send: repeats the prompt, unless an answer that ends with one is expected.</summary>
    public void End(OutputComposer composer)
    {
        lock (_lock)
        {
            if (_unansweredLines > 0 && timeProvider.GetElapsedTime(_answerExpectedAt) >= _answerLimit)
                _unansweredLines = 0;
            if (!_isShown && _unansweredLines == 0 && _prompt.Length > 0)
                _isShown = composer.TryAppend(_prompt);
        }
    }

    /// <returns>True when the message must begin on a new line.</returns>
    private bool Note(in OutputRun run, bool isPrompt)
    {
        lock (_lock)
        {
            var wasShown = _isShown;
            _isShown = isPrompt;
            if (!isPrompt)
                return wasShown;
            if (_unansweredLines > 0 && --_unansweredLines > 0)
                (_answerExpectedAt, _answerLimit) = (timeProvider.GetTimestamp(), NextAnswerLimit);
            if (!run.Bytes.SequenceEqual(_prompt))
                _prompt = run.Bytes.ToArray();
            return wasShown;
        }
    }
}
