using System.Globalization;
using System.Text;

namespace BatchKit.PackageMatrix;

/// <summary>The messages of one way, as they arrived.</summary>
internal sealed class Arrivals
{
    public const int Expected = 1000;

    private readonly Lock _gate = new();
    private readonly List<string> _texts = [];
    private readonly TaskCompletionSource _all = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Completes when as many have arrived as were sent.</summary>
    public Task All => _all.Task;

    public void Add(ReadOnlySpan<byte> payload) => Add(Encoding.UTF8.GetString(payload));

    public void Add(string text)
    {
        lock (_gate)
        {
            _texts.Add(text);
            if (_texts.Count == Expected)
                _all.SetResult();
        }
    }

    /// <summary>Whether each message arrived once and in order, and that in words.</summary>
    public (bool IsWhole, string Text) Describe()
    {
        lock (_gate)
        {
            var different = _texts.Distinct(StringComparer.Ordinal).Count();
            var isInOrder = _texts.Select(static (text, index) => text == TextOf(index)).All(static isRight => isRight);
            var text = $"{different} of {Expected}{(_texts.Count == different ? "" : $", {_texts.Count - different} repeated")}{(isInOrder ? "" : ", out of order")}";
            return (different == Expected && _texts.Count == Expected && isInOrder, text);
        }
    }

    public static string TextOf(int number) => number.ToString(CultureInfo.InvariantCulture);
}
