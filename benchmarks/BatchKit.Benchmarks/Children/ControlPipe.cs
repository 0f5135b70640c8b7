using System.Buffers.Text;

namespace BatchKit.Benchmarks.Children;

/// <summary>A child's end of its commands: lines on standard input, numbers back on standard output. Allocates nothing, because the child's allocations are measured.</summary>
internal sealed class ControlPipe
{
    private readonly Stream _input = Console.OpenStandardInput();
    private readonly Stream _output = Console.OpenStandardOutput();
    private readonly byte[] _line = new byte[256];
    private readonly byte[] _reply = new byte[512];

    /// <summary>Waits for the next command.</summary>
    /// <returns>Its words; empty when the parent is gone.</returns>
    public ReadOnlySpan<byte> Read()
    {
        var length = 0;
        while (_input.Read(_line, length, 1) == 1)
        {
            if (_line[length] == '\n')
                return _line.AsSpan(0, length);
            length++;
        }

        return [];
    }

    public void Reply(params ReadOnlySpan<long> numbers)
    {
        var length = 0;
        foreach (var number in numbers)
        {
            Utf8Formatter.TryFormat(number, _reply.AsSpan(length), out var written);
            length += written;
            _reply[length++] = (byte)' ';
        }

        _reply[length++] = (byte)'\n';
        _output.Write(_reply, 0, length);
        _output.Flush();
    }

    /// <summary>A number among a command's words.</summary>
    /// <param name="command">The whole command.</param>
    /// <param name="index">Which word, from 0.</param>
    public static long NumberAt(ReadOnlySpan<byte> command, int index) =>
        Utf8Parser.TryParse(WordAt(command, index), out long number, out _) ? number : 0;

    public static ReadOnlySpan<byte> WordAt(ReadOnlySpan<byte> command, int index)
    {
        foreach (var word in command.Split((byte)' '))
        {
            if (index-- == 0)
                return command[word];
        }

        return [];
    }
}
