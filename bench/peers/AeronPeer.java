/*
 * Messages over Aeron IPC, as its users send them: claimed and written in place where they fit into
 * one frame, else offered and assembled again.
 *
 * The peer "aeron" of `hythe bench ipc`, which compiles it by javac and starts both sides. The near
 * side has the media driver in it, and measures; the far one answers until a message of one byte
 * comes. Before anything is measured it warms up for seconds, for the compiler's sake.
 *
 * Usage: AeronPeer near|far filled|single SIZE COUNT SECONDS DIRECTORY
 */

import io.aeron.Aeron;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.FragmentHandler;
import java.nio.ByteOrder;
import org.agrona.BufferUtil;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.SleepingMillisIdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

public final class AeronPeer
{
    private static final String CHANNEL = "aeron:ipc?term-length=32m";
    private static final int THERE = 1;
    private static final int BACK = 2;
    private static final long WARM_UP = 20_000;
    private static final long WARM_UP_NS = 2_000_000_000L;
    private static final int SAMPLES_MIN = 20;

    private final int size;
    private final UnsafeBuffer whole;
    private final BufferClaim claim = new BufferClaim();
    private final FragmentHandler handler = new FragmentAssembler(
        (buffer, offset, length, header) -> received(buffer, offset, length));
    private Publication publication;
    private Subscription subscription;
    private long expected;
    private int lastLength;

    private AeronPeer(final int size)
    {
        this.size = size;
        whole = new UnsafeBuffer(BufferUtil.allocateDirectAligned(size, 64));
    }

    /* Odd, and unlike that of the neighbours in all bytes. */
    private static long content(final long number)
    {
        return (number * 0x9E3779B97F4A7C15L) | 1;
    }

    private static void fill(
        final MutableDirectBuffer buffer, final int offset, final int size, final long number)
    {
        final long word = content(number);
        for (int at = 0; at + 8 <= size; at += 8)
        {
            buffer.putLong(offset + at, word, ByteOrder.LITTLE_ENDIAN);
        }
    }

    private void received(final DirectBuffer buffer, final int offset, final int length)
    {
        lastLength = length;
        if (length != size)
        {
            return;
        }
        long sum = 0;
        for (int at = 0; at + 8 <= size; at += 8)
        {
            sum += buffer.getLong(offset + at, ByteOrder.LITTLE_ENDIAN);
        }
        if (sum != content(expected) * (size / 8))
        {
            System.err.println("a message is damaged");
            System.exit(1);
        }
    }

    private void put(final long number)
    {
        if (size <= publication.maxPayloadLength())
        {
            while (publication.tryClaim(size, claim) < 0)
            {
                Thread.onSpinWait();
            }
            fill(claim.buffer(), claim.offset(), size, number);
            claim.commit();
            return;
        }
        fill(whole, 0, size, number);
        while (publication.offer(whole, 0, size) < 0)
        {
            Thread.onSpinWait();
        }
    }

    /* False: the other side has finished. */
    private boolean take(final long number)
    {
        expected = number;
        lastLength = 0;
        while (lastLength == 0)
        {
            if (subscription.poll(handler, 1) == 0)
            {
                Thread.onSpinWait();
            }
        }
        return lastLength == size;
    }

    private void putLast()
    {
        final UnsafeBuffer last = new UnsafeBuffer(new byte[1]);
        while (publication.offer(last) < 0)
        {
            Thread.onSpinWait();
        }
    }

    private void answer()
    {
        for (long number = 0; take(number); number++)
        {
            put(number);
        }
    }

    private void acknowledge(final int count)
    {
        for (long number = 0; number < count; number++)
        {
            take(number);
        }
        put(count);
        take(0);
    }

    private long roundTrip(final long number)
    {
        final long sent = System.nanoTime();
        put(number);
        if (!take(number))
        {
            System.err.println("the other side has finished");
            System.exit(1);
        }
        return System.nanoTime() - sent;
    }

    private void measure(final boolean isSingle, final int count, final long boundNs)
    {
        long number = 0;
        long start = System.nanoTime();
        while (number < WARM_UP && System.nanoTime() - start < WARM_UP_NS)
        {
            roundTrip(number++);
        }
        if (isSingle)
        {
            /* From here on the far side answers no more. */
            putLast();
            start = System.nanoTime();
            for (number = 0; number < count; number++)
            {
                put(number);
            }
            take(count);
            System.out.println(count * 1_000_000_000L / (System.nanoTime() - start));
            return;
        }
        final long[] times = new long[count];
        int samples = 0;
        start = System.nanoTime();
        do
        {
            times[samples++] = roundTrip(number++);
        }
        while (samples < count
            && (System.nanoTime() - start < boundNs || samples < SAMPLES_MIN));
        final StringBuilder lines = new StringBuilder();
        for (int sample = 0; sample < samples; sample++)
        {
            lines.append(times[sample]).append('\n');
        }
        System.out.print(lines);
    }

    private void open(final Aeron aeron, final boolean isNear)
    {
        publication = aeron.addPublication(CHANNEL, isNear ? THERE : BACK);
        subscription = aeron.addSubscription(CHANNEL, isNear ? BACK : THERE);
        while (!publication.isConnected() || !subscription.isConnected())
        {
            Thread.onSpinWait();
        }
    }

    public static void main(final String[] words)
    {
        final boolean isNear = words[0].equals("near");
        final boolean isSingle = words[1].equals("single");
        final AeronPeer peer = new AeronPeer(Integer.parseInt(words[2]));
        final int count = Integer.parseInt(words[3]);
        final long boundNs = (long)(Double.parseDouble(words[4]) * 1e9);
        final String directory = words[5];
        if (isNear)
        {
            final MediaDriver.Context context = new MediaDriver.Context()
                .aeronDirectoryName(directory)
                .dirDeleteOnStart(true)
                .dirDeleteOnShutdown(true)
                .threadingMode(ThreadingMode.SHARED)
                .sharedIdleStrategy(new SleepingMillisIdleStrategy(1));
            try (MediaDriver driver = MediaDriver.launch(context);
                Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(directory)))
            {
                peer.open(aeron, true);
                peer.measure(isSingle, count, boundNs);
                peer.putLast();
            }
            return;
        }
        try (Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(directory)))
        {
            peer.open(aeron, false);
            peer.answer();
            if (isSingle)
            {
                peer.acknowledge(count);
            }
        }
    }
}
