using System.ComponentModel;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Unicode;

namespace BatchKit;

/// <summary>Formats an interpolated string as UTF-8 straight into memory that the thread keeps for it: no string is made. Used by the compiler.</summary>
[InterpolatedStringHandler]
[EditorBrowsable(EditorBrowsableState.Never)]
public ref struct OutputInterpolatedStringHandler
{
    private const int FirstBytes = 1024;
    private const int GuessedBytesPerHole = 16;

    // More than this is not worth keeping for a thread that once wrote a long line.
    private const int MaxKeptBytes = 64 * 1024;

    // Null while it is in use: a value whose formatting writes an interpolated string itself gets memory of its own.
    [ThreadStatic]
    private static byte[]? _kept;

    private readonly IFormatProvider? _provider;
    private byte[] _bytes;
    private int _length;

    /// <summary>Called by the compiler.</summary>
    /// <param name="literalLength">Units of the string's fixed parts.</param>
    /// <param name="formattedCount">How many values it has.</param>
    public OutputInterpolatedStringHandler(int literalLength, int formattedCount)
        : this(literalLength, formattedCount, provider: null)
    {
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="literalLength">Units of the string's fixed parts.</param>
    /// <param name="formattedCount">How many values it has.</param>
    /// <param name="provider">The culture to format with; the current one when null.</param>
    public OutputInterpolatedStringHandler(int literalLength, int formattedCount, IFormatProvider? provider)
    {
        _provider = provider;
        _bytes = _kept ?? new byte[FirstBytes];
        _kept = null;
        EnsureFree(literalLength + (formattedCount * GuessedBytesPerHole));
    }

    internal readonly ReadOnlyMemory<byte> Written => _bytes.AsMemory(0, _length);

    /// <summary>Encodes a text that is already formatted.</summary>
    internal static OutputInterpolatedStringHandler Encode(ReadOnlySpan<char> text)
    {
        var encoded = new OutputInterpolatedStringHandler(text.Length, formattedCount: 0);
        encoded.AppendFormatted(text);
        return encoded;
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">A fixed part.</param>
    public void AppendLiteral(string value) => AppendFormatted(value.AsSpan());

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">Text.</param>
    public void AppendFormatted(string? value) => AppendFormatted(value.AsSpan());

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">Text.</param>
    public void AppendFormatted(ReadOnlySpan<char> value)
    {
        int written;
        while (!Encoding.UTF8.TryGetBytes(value, _bytes.AsSpan(_length), out written))
            EnsureFree(Encoding.UTF8.GetByteCount(value));
        _length += written;
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="utf8">Bytes that are UTF-8 already.</param>
    public void AppendFormatted(ReadOnlySpan<byte> utf8)
    {
        EnsureFree(utf8.Length);
        utf8.CopyTo(_bytes.AsSpan(_length));
        _length += utf8.Length;
    }

    /// <summary>Called by the compiler.</summary>
    /// <typeparam name="T">The value's type; one that is <see cref="IUtf8SpanFormattable"/>, as numbers and times are, makes no garbage.</typeparam>
    /// <param name="value">The value.</param>
    public void AppendFormatted<T>(T value) => AppendFormatted(value, format: null);

    /// <summary>Called by the compiler.</summary>
    /// <typeparam name="T">The value's type.</typeparam>
    /// <param name="value">The value.</param>
    /// <param name="format">Its format.</param>
    public void AppendFormatted<T>(T value, string? format)
    {
        if (value is IUtf8SpanFormattable)
        {
            // Tested and used as T, so that a value type is not boxed.
            int written;
            while (!((IUtf8SpanFormattable)value).TryFormat(_bytes.AsSpan(_length), out written, format, _provider))
                EnsureFree(_bytes.Length + 1);
            _length += written;
        }
        else
        {
            AppendFormatted(value is IFormattable formattable ? formattable.ToString(format, _provider) : value?.ToString());
        }
    }

    /// <summary>Called by the compiler.</summary>
    /// <typeparam name="T">The value's type.</typeparam>
    /// <param name="value">The value.</param>
    /// <param name="alignment">The least number of places; negative to align to the left.</param>
    /// <param name="format">Its format.</param>
    public void AppendFormatted<T>(T value, int alignment, string? format = null)
    {
        var start = _length;
        AppendFormatted(value, format);
        var units = Encoding.UTF8.GetCharCount(_bytes.AsSpan(start, _length - start));
        var padding = Math.Abs(alignment) - units;
        if (padding <= 0)
            return;
        EnsureFree(padding);
        var bytes = _length - start;
        if (alignment > 0)
            _bytes.AsSpan(start, bytes).CopyTo(_bytes.AsSpan(start + padding));
        _bytes.AsSpan(alignment > 0 ? start : _length, padding).Fill((byte)' ');
        _length += padding;
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">Text.</param>
    /// <param name="alignment">The least number of places; negative to align to the left.</param>
    /// <param name="format">Not used.</param>
    public void AppendFormatted(string? value, int alignment = 0, string? format = null) =>
        AppendFormatted<string?>(value, alignment, format);

    /// <summary>Gives the memory back to the thread.</summary>
    internal void Release()
    {
        if (_bytes.Length <= MaxKeptBytes)
            _kept = _bytes;
        _bytes = [];
        _length = 0;
    }

    private void EnsureFree(int bytes)
    {
        if (_bytes.Length - _length < bytes)
            Array.Resize(ref _bytes, Math.Max(_bytes.Length * 2, _length + bytes));
    }
}
